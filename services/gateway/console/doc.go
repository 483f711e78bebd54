// Package console serves the console: the pages that show sessions in a browser. They are what lies in files/, as it is
// there: nothing builds them. Everything that they show comes through the API at /api/v1, with the login of the browser,
// and nothing is loaded from anywhere else. What others have written is in files/vendor; README.md names it.
//
// The way through it: files/main.js begins, live.js keeps the sessions as the API's stream tells them, list.js and
// session.js show them, terminal.js has the WebSocket of a terminal, desktop.js that of a desktop.
// pages.js lists the other pages, and who may see them: fleet.js, usage.js, policies.js, access.js, audit.js, connect.js, each loaded when
// a person goes there, each made of what admin.js has. Names, labels and output of sessions are texts for
// the page, never markup. It never asks for anything that counts as use unless a person has asked for that.
package console
