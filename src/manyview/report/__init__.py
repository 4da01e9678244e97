"""HTML reports of comparisons."""

try:
    from manyview.report.page import write_report
except ModuleNotFoundError as error:
    if error.name not in {"jinja2", "plotly"}:
        raise
    raise ImportError(
        f"the report needs {error.name}: pip install 'manyview[app]'", name=error.name
    ) from error

__all__ = ["write_report"]
