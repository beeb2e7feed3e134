"""Pages of plain Material: what axe finds in these is none of our doing."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]

INDEX = """\
# Stock

A paragraph with [a link](other.md), `code`, and a note[^1].

```python
def scale(x):
    # A comment, and a string.
    return 2 * x + len("two")
```

| a | b |
| --- | --- |
| 1 | 2 |

!!! note
    An admonition.

??? note
    Details.

$x^2$

[^1]: The note.
"""
OTHER = """\
# Other

## A section

- [Back](index.md)

```python
x = 1
```

```sh
X=1 python -m x
```

=== "One"

    A tab.

=== "Two"

    Another tab.
"""


def make_stock(root: Path) -> Path:
    """Builds two pages with the book's settings, without its theme and plugin."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    for ours in ("docs_dir", "site_dir", "nav", "extra", "extra_css"):
        del settings[ours]
    del settings["extra_javascript"], settings["theme"]["custom_dir"]
    settings["plugins"] = {"search": {}}
    (root / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (root / "docs").mkdir()
    for name, text in (("index", INDEX), ("other", OTHER)):
        (root / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    config = load_config(str(root / "mkdocs.yml"))
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    return Path(config.site_dir)
