import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyview.report.text import MISSING, as_json, compact, figure, plotly_text, short


@given(st.text())
def test_json_says_what_it_was_given_and_holds_no_markup(text):
    written = as_json({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert not set("<>&\u2028\u2029") & set(written)


@given(st.text())
def test_plotly_text_holds_no_tag(text):
    shown = plotly_text(text)
    assert "<" not in shown
    assert ">" not in shown


def test_an_entity_in_a_name_is_not_taken_for_one():
    assert plotly_text("&lt;") == "&amp;lt;"


@given(st.text(), st.integers(2, 80))
def test_short_texts_are_one_line_within_their_length(text, most):
    line = short(text, most)
    assert len(line) <= most
    assert "\n" not in line


def test_numbers_that_are_none_are_shown_as_missing():
    assert compact(float("inf")) is None
    assert compact(None) is None
    assert figure(float("nan")) == MISSING


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.5, "0.500"), (99.96, "100.0"), (12345.6, "12346")]
)
def test_figures_have_three_digits_and_no_exponent(value, shown):
    assert figure(value) == shown


def test_json_rejects_what_no_browser_reads():
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(float("nan"))
