// Package robustness checks histories: many clients work with sessions while
// servers, connections, workers and schedulers fail, and what each client was told
// is held against a model of one session's life, by porcupine.
//
// The model knows nothing of suspends: a session counts, and goes on with the next
// number when it is suspended or resumed, its worker ends, or the leader of its log
// changes. So a session that ran twice, was
// resumed from an old image, or lost what was acknowledged, shows itself by a
// number that is missing or comes twice. Beside the model the log is checked:
// folding it gives every record, versions have no gaps, and every answer that a
// client got is a revision of it.
//
// The parts are the real ones, with the fake driver, on one embedded NATS server
// and on a cluster of three, and once more as processes of their own, which are stopped
// by SIGSTOP for longer than a lease, killed, and have a NATS server whose disk is slow at
// times (process_test.go, remote_test.go). A fourth kind of history has no fakes: the program
// itself as a daemon, a worker and a second scheduler, with process trees under CRIU and an S3
// server (program_test.go). Its processes start with failpoints armed and are killed, stopped
// and cut off while the S3 server and NATS are killed beside them; each session tells a
// witness of every step, which the kernel stamps with its time (witness_test.go).
//
// A seed gives the clients' requests and the faults; the order in which they meet is the machine's. A history that fails is kept
// as a file, with the command that checks it again. `make robustness` runs for as
// long as it is told, all four kinds; `make test` the cluster and the program alone. TRACK_RECORD.md says what was found.
package robustness
