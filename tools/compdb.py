#!/usr/bin/env python3
"""compile_commands.json from `make -Bn V=1` on standard input (make compdb)."""
import json
import os
import shlex
import sys

rows = []
for line in sys.stdin:
    if " -c -o " not in line or not line.rstrip().endswith(".c"):
        continue
    args = shlex.split(line)
    rows.append({"directory": os.getcwd(), "file": args[-1], "arguments": args})
json.dump(rows, sys.stdout, indent=1)
print()
