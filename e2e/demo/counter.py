"""Counts, and keeps a working set of 200 MB that it checks at every step."""
import os
import sys
import time

# Half random, half repeating, as programs' memory is.
filler = b"diapause " * (512 * 1024 // 9)
memory = [bytearray(os.urandom(512 * 1024) + filler) for _ in range(200)]
for number, part in enumerate(memory):
    part[0:8] = number.to_bytes(8, "big")

secret_in_memory = "".join(["memory", "-secret-", sys.argv[1]])
with open("/root/secret.txt", "w") as f:
    f.write("file-secret-" + sys.argv[1])
print("output-secret-" + sys.argv[1], flush=True)

count = 0
while True:
    count += 1
    part = memory[count % len(memory)]
    assert int.from_bytes(part[0:8], "big") == count % len(memory)
    print("count", count, flush=True)
    time.sleep(0.5)
