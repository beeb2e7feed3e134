"""`python -m codewalk`: the command line, without installing anything."""

from codewalk.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
