profile="$HOME/.diapause-desktop/firefox" # of its own: none of the person's on the host
mkdir -p "$profile"
cat >"$profile/user.js" <<'END'
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("accessibility.force_disabled", 1);
user_pref("browser.cache.disk.enable", false);
user_pref("dom.ipc.processPrelaunch.enabled", false);
user_pref("dom.ipc.forkserver.enable", false);
user_pref("browser.newtab.preload", false);
user_pref("network.process.enabled", false);
user_pref("media.rdd-process.enabled", false);
user_pref("media.utility-process.enabled", false);
user_pref("layers.acceleration.disabled", true);
user_pref("gfx.webrender.software", true);
END
for program in firefox-esr firefox; do
	command -v "$program" >/dev/null && exec "$program" --profile "$profile" "$@"
done
echo "desktop: there is no Firefox here: install firefox-esr" >&2
exit 127
