#!/usr/bin/env python3
"""Prints `passed failed skipped` of a JUnit file that ctest wrote; exit 1 if there is none."""
import sys
import xml.etree.ElementTree as xml

try:
    suite = xml.parse(sys.argv[1]).getroot()
except (OSError, xml.ParseError) as error:
    sys.exit(f"no test results: {error}")
total, failed = int(suite.get("tests")), int(suite.get("failures"))
skipped = int(suite.get("skipped")) + int(suite.get("disabled"))
print(total - failed - skipped, failed, skipped)
