# Runs the display: $1 is the size, the rest a command. It ends when the X server does.
Xvnc "$DISPLAY" -geometry "$1" -depth 24 -rfbport 5900 -localhost -SecurityTypes None -AlwaysShared \
	-nolisten tcp -nolisten local -extension GLX -desktop diapause -Log '*:stderr:0' &
server=$!
until [ -S /tmp/.X11-unix/X1 ]; do
	kill -0 "$server" 2>/dev/null || exit 1
	sleep 0.02
done
if command -v openbox >/dev/null; then
	# A window that is mapped while openbox begins may never be shown.
	managed="$XDG_RUNTIME_DIR/managed"
	rm -f "$managed"
	openbox --startup "touch $managed" &
	manager=$!
	until [ -e "$managed" ] || ! kill -0 "$manager" 2>/dev/null; do
		sleep 0.02
	done
else
	echo "desktop: there is no openbox here, so no window can be moved" >&2
fi
shift
{ "$@" || echo "desktop: the application ended with status $?" >&2; } &
wait "$server"
