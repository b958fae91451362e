#!/usr/bin/env python3
"""Counts the tests of a JUnit file that ctest or pytest wrote; exit 1 if there is none.

The first line is `passed failed skipped`. Each further line names what this machine lacks and how many tests it
cost: `amx in 96 tests` (they print "[  ABSENT  ] amx", see tests/support/present.hpp, and ran without it), or
`1 skipped: this processor has no VNNI`.
"""
import re
import sys
import xml.etree.ElementTree as xml
from collections import Counter

ABSENT = re.compile(r"^\[  ABSENT  \] (.+)$", re.MULTILINE)
REASON = re.compile(r"^.*: Skipped\n(.+)$", re.MULTILINE)


def lacking(suite):
    absent, reasons = Counter(), Counter()
    for case in suite.iter("testcase"):
        text = case.findtext("system-out") or ""
        absent.update(set(ABSENT.findall(text)))
        if case.find("skipped") is not None:
            said = case.find("skipped").get("message") or "no reason said"  # pytest's; gtest's is in the text
            reasons.update(REASON.findall(text)[:1] or [said])
    for what, tests in absent.most_common():
        yield f"{what} in {tests} test{'s' if tests > 1 else ''}"
    for reason, tests in reasons.most_common():
        yield f"{tests} skipped: {reason}"


def main(path):
    try:
        suite = xml.parse(path).getroot()
    except (OSError, xml.ParseError) as error:
        sys.exit(f"no test results: {error}")
    suite = suite if suite.tag == "testsuite" else suite.find("testsuite")
    total, failed = int(suite.get("tests")), int(suite.get("failures")) + int(suite.get("errors", 0))
    skipped = int(suite.get("skipped")) + int(suite.get("disabled", 0))
    print(total - failed - skipped, failed, skipped)
    for what in lacking(suite):
        print(what)


if __name__ == "__main__":
    main(sys.argv[1])
