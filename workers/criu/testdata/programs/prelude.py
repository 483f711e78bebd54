# Before each program: ready returns when the session has been suspended and resumed, and
# answer says what isn't as it was. It takes a list whose entries are true or a text.
import ctypes, os, signal, struct
os.mkfifo("/tmp/check")
libc = ctypes.CDLL(None, use_errno=True)

def call(name, *args):
    """Calls a function of libc, which fails by a negative number."""
    n = getattr(libc, name)(*args)
    if n < 0:
        raise OSError(ctypes.get_errno(), name + ": " + os.strerror(ctypes.get_errno()))
    return n

def same(what, got, want):
    return got == want or "%s: %s, was %s" % (what, got, want)

def compare(before, after):
    """Says which entries of a dict have changed."""
    return [same(k, after[k], before[k]) for k in before]

def tried(fn):
    """What a function gives, or the text of its error."""
    try:
        return fn()
    except OSError as err:
        return err.strerror

def ready():
    print("ready", flush=True)
    open("/tmp/check").read()

def answer(findings):
    wrong = [str(f) for f in findings if f is not True and not (isinstance(f, int) and f)]
    print("answer: " + (", ".join(wrong) or "ok"), flush=True)
    while True:
        signal.pause()
