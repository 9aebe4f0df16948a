"""Reads `dcpctl help --json`, prints every command, argument and option that scripts may use, one a line, sorted."""
import json
import sys


def lines(command, path):
    yield path
    for positional in command["positionals"]:
        yield f"{path} {positional['value']}"
    for option in command["options"]:
        value = f" {option['value']}" if option.get("value") else ""
        yield f"{path} {', '.join(option['names'])}{value}{' (repeatable)' if option['repeatable'] else ''}"
    for below in command.get("commands", []):
        yield from lines(below, f"{path} {below['name']}")


print("\n".join(sorted(lines(json.load(sys.stdin)["command"], "dcpctl"))))
