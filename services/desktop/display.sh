# Runs the display: $1 is the size, the rest a command. It ends when the X server does.
Xvnc "$DISPLAY" -geometry "$1" -depth 24 -rfbport 5900 -localhost -SecurityTypes None -AlwaysShared \
	-nolisten tcp -nolisten local -extension GLX -desktop diapause -Log '*:stderr:0' &
server=$!
until [ -S /tmp/.X11-unix/X1 ]; do
	kill -0 "$server" 2>/dev/null || exit 1
	sleep 0.02
done
for manager in openbox matchbox-window-manager icewm twm; do
	command -v "$manager" >/dev/null || continue
	"$manager" &
	break
done
shift
{ "$@" || echo "desktop: the application ended with status $?" >&2; } &
wait "$server"
