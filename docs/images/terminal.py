#!/usr/bin/env python3
"""Draw text from standard input as a terminal screen, in SVG.

    ffs demo --no-study | docs/images/terminal.py '$ ffs demo' > docs/images/demo.svg
"""

import sys
from html import escape

SIZE, LEADING, MARGIN = 13, 18, 16


def main():
    lines = sys.argv[1:] + sys.stdin.read().rstrip("\n").split("\n")
    # A character of a monospaced font is at most 0.61 times as wide as it is high.
    width = round(max(map(len, lines)) * SIZE * 0.61) + 2 * MARGIN
    height = len(lines) * LEADING + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
          f'width="{width}" height="{height}" font-family="ui-monospace,Menlo,Consolas,'
          f'DejaVu Sans Mono,monospace" font-size="{SIZE}" fill="#d7dbe0">')
    print(f'<rect width="{width}" height="{height}" rx="8" fill="#16191d"/>')
    for number, line in enumerate(lines):
        y = MARGIN + number * LEADING + SIZE
        weight = ' fill="#8fd18f"' if number < len(sys.argv) - 1 else ""
        print(f'<text x="{MARGIN}" y="{y}" xml:space="preserve"{weight}>{escape(line)}</text>')
    print("</svg>")


main()
