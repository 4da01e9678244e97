(() => {
  "use strict";

  // on a narrow screen long parts are folded; on paper all are open
  const narrow = matchMedia("(max-width: 45rem)");
  const fold = () => {
    for (const part of document.querySelectorAll("details.fold")) part.open = !narrow.matches;
  };
  fold();
  narrow.addEventListener("change", fold);
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
  addEventListener("afterprint", fold);
})();
