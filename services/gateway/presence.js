// Says each minute that the page which has this script is visible, for one session:
// <script src="https://GATEWAY/presence.js" data-session="TENANT.NAME" data-token="dpt_..." async></script>
// The token is one of role publisher for that session alone. It never resumes a session.
(function () {
  'use strict';
  var script = document.currentScript;
  var url = new URL('/api/sessions/' + encodeURIComponent(script.dataset.session) + '/heartbeat', script.src);
  var headers = { Authorization: 'Bearer ' + script.dataset.token };
  var minute = 60000, last = -minute, timer;
  delete script.dataset.token;

  function beat() {
    if (document.visibilityState !== 'visible' || performance.now() - last < minute - 1000) return;
    last = performance.now();
    fetch(url, { method: 'POST', headers: headers, credentials: 'omit', cache: 'no-store', keepalive: true }).then(function (answer) {
      if ([401, 403, 404, 410].indexOf(answer.status) < 0) return;
      clearInterval(timer);
      document.removeEventListener('visibilitychange', beat);
    }, function () {}); // away for now
  }

  timer = setInterval(beat, minute);
  document.addEventListener('visibilitychange', beat);
  beat();
})();
