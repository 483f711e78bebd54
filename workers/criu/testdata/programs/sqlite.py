# Databases that stay open: SQLite writes to none whose inode number has changed.
#: SQLite | database written in each journal mode after a resume | kept
import sqlite3
modes, open_ones = ("delete", "truncate", "wal"), []
for mode in modes:
    db = sqlite3.connect("/tmp/%s.db" % mode, isolation_level=None)
    db.execute("pragma journal_mode=" + mode)
    db.execute("create table t (n integer)")
    db.execute("insert into t values (1)")
    open_ones.append(db)
ready()

def check(mode, db):
    try:
        db.execute("insert into t values (2)")
        found = db.execute("select sum(n) from t").fetchone()[0], db.execute("pragma integrity_check").fetchone()[0]
        return found == (3, "ok") or "%s: %s" % (mode, found)
    except sqlite3.Error as e:
        return "%s: %s" % (mode, e)
answer([check(mode, db) for mode, db in zip(modes, open_ones)])
