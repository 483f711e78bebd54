# What a program sets for its system calls and for the time stamp counter, and only it can read.
#: thread | syscall user dispatch (PR_SET_SYSCALL_USER_DISPATCH) | changed: it is off
#: process | PR_SET_TSC | changed: the counter can be read
import subprocess
text = rb"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static volatile char blocked; static volatile int hits;
static void hit(int s, siginfo_t *i, void *c) { blocked = 0; hits++; }
static int calls(void) { blocked = 1; syscall(SYS_getppid); int n = hits; blocked = hits = 0; return n; }
int main(void) {
	struct sigaction a = { .sa_sigaction = hit, .sa_flags = SA_SIGINFO };
	char c;
	sigaction(SIGSYS, &a, 0);
	prctl(59, 1, 0, 0, &blocked);
	printf("%d\n", calls()); fflush(stdout);
	read(0, &c, 1);
	printf("%d\n", calls()); fflush(stdout);
}
"""
open("/tmp/dispatch.c", "wb").write(text)
subprocess.check_call(["gcc", "-w", "-o", "/tmp/dispatch", "/tmp/dispatch.c"])
dispatch = subprocess.Popen(["/tmp/dispatch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert dispatch.stdout.readline() == b"1\n"
def counter():
    n = ctypes.c_int()
    libc.prctl(25, ctypes.byref(n), 0, 0, 0)  # PR_GET_TSC
    return n.value
asked, told = os.pipe(), os.pipe()
if os.fork() == 0:
    libc.prctl(26, 2, 0, 0, 0)  # PR_SET_TSC, PR_TSC_SIGSEGV
    os.write(told[1], b"%d" % counter())
    os.read(asked[0], 1)
    os.write(told[1], b"%d" % counter())
    while True: signal.pause()
assert os.read(told[0], 1) == b"2"
ready()
dispatch.stdin.write(b"x")
dispatch.stdin.flush()
os.write(asked[1], b"x")
answer([same("dispatch", dispatch.stdout.readline(), b"0\n"), same("counter", os.read(told[0], 1), b"1")])
