"""Says what this machine is, and what jobs may count on here: python -m jobs.probe"""

import json
import platform
from importlib.metadata import version


def main() -> None:
    answer = {
        "device": {"id": "cpu", "name": platform.machine()},
        "software": {name: version(name) for name in ("torch", "triton", "numpy")},
        "provides": ["cpu"],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
