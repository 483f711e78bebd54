// Says each minute that the page which has this script is visible, for one session. On a page of any site:
// <script src="https://GATEWAY/presence.js" data-session="TENANT.NAME" data-token="dpt_..." async></script>
// The token is one of role publisher for that session alone. On a page that a session serves at its port:
// <script src="/.well-known/diapause/presence.js" async></script>
// It never resumes a session.
(function () {
  'use strict';
  var script = document.currentScript, data = script.dataset, token = data.token;
  var path = token ? '/api/sessions/' + encodeURIComponent(data.session) : '/.well-known/diapause';
  var url = new URL(path + '/heartbeat', script.src);
  var headers = token ? { Authorization: 'Bearer ' + token } : { 'Diapause-Presence': 'visible' };
  var how = { method: 'POST', headers: headers, credentials: 'omit', cache: 'no-store', keepalive: true };
  var minute = 60000, last = -minute, timer;
  if (!token) how.credentials = 'same-origin';
  delete data.token;

  function beat() {
    if (document.visibilityState !== 'visible' || performance.now() - last < minute - 1000) return;
    last = performance.now();
    fetch(url, how).then(function (answer) {
      if ([401, 403, 404, 410].indexOf(answer.status) < 0) return;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', beat);
    }, function () {}); // away for now
  }

  timer = setInterval(beat, minute);
  document.addEventListener('visibilitychange', beat);
  beat();
})();
