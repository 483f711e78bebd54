# A child that has ended and isn't waited for, with its status; one that is stopped; process groups.
#: process | ended and not waited for; stopped | kept
import os, signal
ended = os.fork()
if ended == 0:
    os._exit(42)
os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
killed = os.fork()
if killed == 0:
    signal.pause()
os.kill(killed, signal.SIGTERM)
os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
stopped = os.fork()
if stopped == 0:
    os.setpgid(0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(7)
os.waitpid(stopped, os.WUNTRACED)
ready()
state = lambda pid: open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
wrong = [state(stopped)[0] == "T" or "the stopped one is %s" % state(stopped)[0], int(state(stopped)[2]) == stopped or "its group"]
wrong.append(os.waitstatus_to_exitcode(os.waitpid(ended, 0)[1]) == 42 or "the status of one that ended")
wrong.append(os.waitstatus_to_exitcode(os.waitpid(killed, 0)[1]) == -signal.SIGTERM or "the status of one that was killed")
os.kill(stopped, signal.SIGCONT)
wrong.append(os.waitstatus_to_exitcode(os.waitpid(stopped, 0)[1]) == 7 or "the stopped one, let go on")
answer(wrong)
