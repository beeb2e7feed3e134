"""The templates beside this file, with everything escaped unless it says `safe`."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from codewalk.render.words import word


@cache
def _environment(language: str) -> Environment:
    environment = Environment(
        loader=PackageLoader("codewalk.render"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=False,
    )
    environment.filters["word"] = lambda key: word(key, language)
    return environment


def fill(template: str, language: str, /, **values: object) -> str:
    """The template as HTML in `language`."""
    return _environment(language).get_template(template).render(values)
