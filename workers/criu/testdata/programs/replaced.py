# Files that many processes have mapped, each removed while another file has got its name.
#: mapping | of a file that another has replaced, in many processes | kept
import json, mmap, os
os.mkdir("/tmp/replaced")
names = ["/tmp/replaced/%d" % i for i in range(8)]
def write(name, text):
    with open(name, "w") as f:
        f.write(text)
def mapped(name):
    with open(name, "r+b") as f:
        return mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE)
for name in names:
    write(name, "was " + name)
askers, answers = [], []
for i in range(24):
    ask, told = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(ask[1])
        maps = [mapped(n) for n in names]
        while os.read(ask[0], 1):
            os.write(told[1], json.dumps([m[:].decode() for m in maps]).encode() + b"\n")
        os._exit(0)
    os.close(ask[0]); os.close(told[1])
    askers.append(ask[1]); answers.append(os.fdopen(told[0]))
def children():
    for ask in askers:
        os.write(ask, b"?")
    return [json.loads(told.readline()) for told in answers]
before = children()
for name in names:
    write(name + ".new", "is " + name)
    os.rename(name + ".new", name)
ready()
wrong = [same("what a child has mapped", is_, was) for is_, was in zip(children(), before)]
wrong.append(same("the directory", sorted(os.listdir("/tmp/replaced")), [str(i) for i in range(8)]))
wrong.append(same("the files there", [open(n).read() for n in names], ["is " + n for n in names]))
answer(wrong)
