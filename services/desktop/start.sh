# Begins a desktop: $1 is display.sh, $2 the size, the rest a command.
for program in Xvnc "$3"; do
	command -v -- "$program" >/dev/null && continue
	echo "desktop: there is no $program here: \`diapause doctor\` names packages" >&2
	exit 127
done
export HOME="${HOME:-/tmp}"
if [ -z "${XDG_RUNTIME_DIR:-}" ]; then # of its own: a name that is known may be another user's in /tmp
	XDG_RUNTIME_DIR=$(mktemp -d "${TMPDIR:-/tmp}/diapause-desktop.XXXXXX") || exit 1
	export XDG_RUNTIME_DIR
fi
mkdir -p -m 0700 "$XDG_RUNTIME_DIR"
mkdir -p -m 1777 /tmp/.X11-unix
rm -f /tmp/.X1-lock /tmp/.X11-unix/X1 # of a run before, or of the host
display="$1"
shift
if command -v dbus-run-session >/dev/null; then
	exec dbus-run-session -- sh -c "$display" desktop "$@"
fi
echo "desktop: there is no dbus-run-session here, so there is no session bus" >&2
exec sh -c "$display" desktop "$@"
