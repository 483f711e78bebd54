for program in chromium chromium-browser google-chrome; do
	command -v "$program" >/dev/null || continue
	# A profile of its own: none of the person's on the host. --test-type hides a bar that warns of --no-sandbox.
	# What no one sees isn't started: it would be captured.
	exec "$program" --no-sandbox --test-type --disable-gpu --disable-software-rasterizer --disable-dev-shm-usage --disable-background-networking \
		--disable-component-update --disable-breakpad --disk-cache-size=1 --disable-features=SpareRendererForSitePerProcess,MediaRouter,WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup --no-first-run --no-default-browser-check \
		--password-store=basic --start-maximized --user-data-dir="$HOME/.diapause-desktop/chromium" "$@"
done
echo "desktop: there is no Chromium here: install chromium" >&2
exit 127
