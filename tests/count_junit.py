#!/usr/bin/env python3
"""Counts test cases for `./dev test`: prints `PASSED FAILED`.

Each Catch2 binary writes a JUnit file per run (tests/meson.build); a binary that ended without
one counts as one failure.
"""

import pathlib
import sys
import xml.etree.ElementTree as ET


def main() -> int:
    build = pathlib.Path(sys.argv[2])
    passed = failed = 0
    for test in ET.parse(sys.argv[1]).getroot().iter("testcase"):
        report = build / "tests" / f"{test.get('name')}.xml"
        try:
            cases = list(ET.parse(report).getroot().iter("testcase"))
        except (OSError, ET.ParseError):
            cases = []
        names = {(c.get("classname"), c.get("name").split("/")[0]) for c in cases}
        bad = {
            (c.get("classname"), c.get("name").split("/")[0])
            for c in cases
            if c.find("failure") is not None or c.find("error") is not None
        }
        passed += len(names - bad)
        failed += len(bad)
        crashed = test.find("failure") is not None or test.find("error") is not None
        if (crashed and not bad) or not cases:
            failed += 1
    print(passed, failed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
