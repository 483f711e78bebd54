// Package network makes the private network of a session: a network namespace of its own with a
// way out, at the same inner address on every host.
//
// Make builds it, in the process that then holds it:
//
//	session                             | host
//	lo     127.0.0.1, 198.19.0.3 (DNS)  |
//	eth0   198.19.0.2, fd..:2::2        | diapXXXX, without an address
//	       source 198.19.0.2 becomes    | the guard: drops what may not go out
//	       198.18.X.X, one for each     | the table "diapause": masquerades the rest
//	       session on this host         |
//
// Inside, every session has the same addresses, so that what is bound or connected to them can be
// restored anywhere. On its way out the source becomes one that is the session's alone on this
// host. Its number is that of the veth pair, whose name the kernel gives once: so several Diapauses
// on one host don't collide. All of these addresses are of ranges that no network uses (RFC 2544).
//
// The guard (guard.go) is a table of the veth's host end alone. It drops what is for an address of
// the host, for another session, for link-local addresses, for what --allow-out doesn't list, or what
// has a foreign source; in a container also what is for its bridge's network (enclosing.go). The
// kernel keeps it for the process that made it: `nft flush ruleset` leaves it. Only the guard makes
// packets acceptable to the host, for they carry a hardware address that isn't the veth's: when the
// process that has the guard is killed, nothing leaves.
//
// The host's tables (host.go, bridges.go) are shared by all sessions of the host. A Keeper (keeper.go) of each worker
// makes them again when one was removed; until then nothing leaves. The second drops what is for
// containers and virtual machines of the host: what would leave by a bridge by which no default route leads.
//
// Nothing is left of a network when its process and those in the namespace have ended: the kernel
// removes the veth pair, with its routes, and the guard. The last one that is closed removes the
// host's tables (last.go), and Tidy does if it was killed.
//
// For a restore a network is made Locked: nothing moves in it but what criu sends, until Unlock.
// Hold keeps all TCP of the network as it is while a frozen session is captured, until Release.
// DestroyOutside ends the restored connections whose other end is not in the namespace.
//
// Where Docker drops what the host forwards, two rules in the chain that it leaves to the host's owner
// accept what comes from sessions, and the answers (docker.go, legacy.go). They go with the tables. Where
// others do, as ufw, the owner has to: FindBlock (blocked.go) tells so.
//
// The package never changes an address, a route or a rule that isn't its own, and adds rules to no
// chain of others but DOCKER-USER. Of the host's settings it
// changes one: it turns on forwarding (net.ipv4.ip_forward).
package network
