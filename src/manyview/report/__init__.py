"""HTML reports of fits and comparisons."""

try:
    from manyview.report.fit import write_fit_report
    from manyview.report.page import write_report
except ModuleNotFoundError as error:
    if error.name not in {"jinja2", "plotly"}:
        raise
    raise ImportError(
        f"the report needs {error.name}: pip install 'manyview[app]'", name=error.name
    ) from error

__all__ = ["write_fit_report", "write_report"]
