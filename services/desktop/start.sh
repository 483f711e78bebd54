# Begins a desktop: $1 is display.sh, $2 the size, the rest a command.
for program in Xvnc "$3"; do
	command -v -- "$program" >/dev/null && continue
	echo "desktop: there is no $program here: \`diapause doctor\` names packages" >&2
	exit 127
done
export HOME="${HOME:-/tmp}"
mkdir -p -m 0700 "$XDG_RUNTIME_DIR"
if [ -L "$XDG_RUNTIME_DIR" ] || ! [ -O "$XDG_RUNTIME_DIR" ]; then # another user's: a name that is known may be taken in /tmp
	XDG_RUNTIME_DIR=$(mktemp -d "${TMPDIR:-/tmp}/diapause-desktop.XXXXXX") || exit 1
	DBUS_SESSION_BUS_ADDRESS="unix:path=$XDG_RUNTIME_DIR/bus"
	export XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS
fi
mkdir -p -m 1777 /tmp/.X11-unix
rm -f /tmp/.X1-lock /tmp/.X11-unix/X1 # of a run before, or of the host
display="$1"
shift
if [ "$DBUS_SESSION_BUS_ADDRESS" != "unix:path=$XDG_RUNTIME_DIR/bus" ]; then
	: # the session has one of its own
elif command -v dbus-daemon >/dev/null; then
	# At an address that is known beforehand, so that what begins later finds it.
	rm -f "$XDG_RUNTIME_DIR/bus"
	dbus-daemon --session --address="$DBUS_SESSION_BUS_ADDRESS" --nofork --nopidfile &
	bus=$!
	until [ -S "$XDG_RUNTIME_DIR/bus" ] || ! kill -0 "$bus" 2>/dev/null; do
		sleep 0.02
	done
else
	echo "desktop: there is no dbus-daemon here, so there is no session bus" >&2
fi
exec sh -c "$display" desktop "$@"
