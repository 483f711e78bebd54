// Package script holds the command-line behaviour of diapause as scripts: one
// txtar file under testdata for each verb and for each kind of bad input, run
// with the real program, the real embedded NATS and the real CRIU.
//
// The scripts are plain text to read as examples; the language is that of
// go-internal's testscript, with the commands of this package added:
//
//	up [FLAG…]               start the daemon, wait until it is ready
//	down [FLAG…]             stop it by `diapause down`
//	killup                   end it with SIGKILL
//	ended STATUS PATTERN     wait until it ends by itself, having said PATTERN
//	code N CMD [ARG…]        run CMD, want exit status N, and no cause said twice on
//	                         standard error
//	until PATTERN CMD…       run CMD until it succeeds and prints PATTERN
//	waitfor NAME STATE       wait until the session is in that state, with nothing under way
//	stays NAME STATE FOR     want it in that state for that long
//	field NAME PATH VALUE    want a field of `show --json`: .last_transition.type
//	json PATH VALUE          want a field of the JSON printed last
//	save VAR NAME PATH       keep a field of `show --json` in a variable
//	counter NAME [AT-LEAST]  want the session to have printed 1, 2, 3 … with none
//	                         missing or twice, and to print on; keeps the last in $N
//	natspub SUBJECT [TEXT]   publish without credentials, by hand over TCP
//	terminal FILE CMD…       run CMD in a terminal, follow the dialogue in FILE
//	hostpids VAR NAME        keep how many processes the host has of the session
//	smalldisk SIZE           put the data directory on a file system of that size
//	resizedisk SIZE          change that size
//
// VALUE is a text, /PATTERN/, or one of >N, <N, !TEXT. Every script gets a data
// directory of its own ($DIAPAUSE_DATA), and ends with its sessions removed, the
// daemon stopped and a look for what is left. The package has tests alone.
package script
