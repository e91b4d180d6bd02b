"""What the user nobody does to the ports of this machine: a process of its own, which holds what it opened until it is
closed."""
import subprocess
import sys

NOBODY = 65534

# Runs as nobody, who may be unable to read this tree, so it is given to the interpreter as text. It prints one line
# when it has opened everything, and ends with its standard input.
ATTACK = r'''
import os, resource, socket, ssl, sys, threading, time

# What this program does by itself would cost another machine's processor time, so it may take none from this one's.
os.nice(19)
kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
trusting.check_hostname = False
trusting.verify_mode = ssl.CERT_NONE

def connect(number):
    stream = socket.socket()
    stream.bind((f"127.0.0.{2 + number % 8}", 0))
    stream.settimeout(20)
    stream.connect(("127.0.0.1", port))
    return stream

def begin_body(stream):
    stream = trusting.wrap_socket(stream)
    size = 1024 * 1024
    head = ("POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer of-nobody\r\nContent-Length: {size}\r\n\r\n")
    try:
        stream.sendall(head.encode())
        stream.sendall(b" " * (size - 1))
    except OSError:
        pass  # it is refused already
    return stream

def shake(number):
    with connect(number) as stream, trusting.wrap_socket(stream):
        pass

def flood(attempt):
    # Attempts without end, by `count` threads. The answer is how many succeeded in how many seconds.
    ended = threading.Event()
    succeeded = [0] * count
    def run(thread):
        number = 0
        while not ended.is_set():
            number += 1
            try:
                attempt(number)
                succeeded[thread] += 1
            except OSError:
                pass
    begin = time.monotonic()
    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(count)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(sum(succeeded), time.monotonic() - begin, flush=True)

if kind == "connects":
    flood(lambda number: connect(number).close())
    sys.exit()
if kind == "handshakes":
    flood(shake)
    sys.exit()
held = []
for number in range(count):
    try:
        stream = connect(number)
        if kind == "bodies":
            stream = begin_body(stream)
    except OSError:
        continue  # it is refused already
    if kind == "hellos" and number % 2:
        try:
            stream.sendall(b"\x16\x03\x01\x02\x00\x01")  # the begin of a handshake
        except OSError:
            pass
    held.append(stream)
print("ready", flush=True)
sys.stdin.read()
'''


class Strangers:
    """Connections of nobody to a port of 127.0.0.1, from eight addresses. Kinds: "bodies" send all of a body of 1 MiB
    but its last byte, with an unknown token; "silent" send nothing; "hellos" send nothing, or the begin of a TLS
    handshake. "connects" and "handshakes" are opened and closed without end, by `count` threads; afterwards
    `succeeded` is how many, in `seconds`."""

    def __init__(self, kind, port, count):
        self.process = subprocess.Popen([sys.executable, "-c", ATTACK, kind, str(port), str(count)], user=NOBODY,
                                        group=NOBODY, extra_groups=[], cwd="/", text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def __enter__(self):
        line = self.process.stdout.readline()
        if line != "ready\n":
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the attack ended early: {line!r}")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)
        if answer := self.process.stdout.read():
            self.succeeded, self.seconds = int(answer.split()[0]), float(answer.split()[1])
        self.process.stdout.close()
