# Files and pipes that a process and its children have open, all by the same numbers.
#: descriptor | of files and pipes that many processes share | kept
import json, os
held = []
for i in range(60):
    held.append(os.open("/tmp/shared%d" % i, os.O_RDWR | os.O_CREAT))
    held += os.pipe()
links = lambda: [os.readlink("/proc/self/fd/%d" % n) for n in held]
askers, answers = [], []
for i in range(20):
    ask, told = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask[1])
        while os.read(ask[0], 1):
            os.write(told[1], json.dumps(links()).encode() + b"\n")
        os._exit(0)
    os.close(ask[0]); os.close(told[1])
    askers.append(ask[1]); answers.append(os.fdopen(told[0]))
ready()
wrong = []
for ask, told in zip(askers, answers):
    os.write(ask, b"?")
    wrong.append(same("a child's files", json.loads(told.readline()), links()))
answer(wrong)
