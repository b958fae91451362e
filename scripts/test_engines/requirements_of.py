"""Prints what an installed package requires here, without the packages whose names begin with one of the words behind it.

usage: requirements_of.py PACKAGE WORD...
"""
import importlib.metadata
import re
import sys

from pip._vendor.packaging.requirements import Requirement

for line in importlib.metadata.requires(sys.argv[1]):
    requirement = Requirement(line)
    wanted = not requirement.marker or requirement.marker.evaluate({"extra": ""})
    if wanted and not re.match("|".join(sys.argv[2:]), requirement.name):
        requirement.marker = None
        print(requirement)
