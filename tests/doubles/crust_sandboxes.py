#!/usr/bin/python3
"""The command by which the CRUST suite makes pods and sandboxes of crust_double.py (docs/crust.md, "How to run the suite").

    crust_sandboxes.py FOLDER pod | begin POD | run SANDBOX SOURCE SCRIPT | end SANDBOX | forget POD
"""
import json
import os
import socket
import sys

NO_CONTAINER = 125


def ask(folder, **request):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(f"{folder}/control.sock")
        with peer.makefile("rw") as stream:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            return json.loads(stream.readline())


def main(folder, verb, *arguments):
    if verb == "pod":
        print(json.dumps(ask(folder, verb="pod")))
    elif verb == "begin":
        print(ask(folder, verb="begin", pod=arguments[0])["sandbox"])
    elif verb == "run":
        sandbox, source, script = arguments
        place = ask(folder, verb="locate", sandbox=sandbox, source=source)
        if "error" in place:
            print(place["error"], file=sys.stderr)
            sys.exit(NO_CONTAINER)
        os.execvp("nsenter", ["nsenter", f"--mount=/proc/{place['pid']}/ns/mnt", "/bin/sh", "-c",
                              'cd "$0" || exit 125; exec /bin/sh -c "$1"', place["folder"], script])
    else:
        ask(folder, verb=verb, **{{"end": "sandbox", "forget": "pod", "reset": "ignored"}[verb]: value for value in arguments})


if __name__ == "__main__":
    main(*sys.argv[1:])
