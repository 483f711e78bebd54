// Programs to copy, which say that a session is in use. Each is whole, and needs nothing beyond its language.

export const languages = ["curl", "bash", "Python", "Node.js", "Go"];

// snippet writes one for this installation. The role client first has the session run; publisher only says what is in use.
export function snippet(language, { origin, token, session, role }) {
  const at = `${origin}/api/v1/sessions/${session.replace("/", ".")}`;
  const calls = [...(role === "client" ? [["ensure", ""]] : []), ["activity", '{"kind": "input", "reason": "a snippet"}']];
  switch (language) {
    case "curl":
      return calls.map(([verb, body]) => `curl --fail-with-body -sS -X POST ${at}/${verb} \\\n  -H 'Authorization: Bearer ${token}'${body ? ` \\\n  -H 'Content-Type: application/json' -d '${body}'` : ""}`).join(" &&\n");
    case "bash":
      return `#!/bin/bash
# Keeps the session awake while a command runs: bash this.sh make test
set -euo pipefail
say() {
  curl --fail-with-body -sS -o /dev/null -X POST ${at}/activity \\
    -H 'Authorization: Bearer ${token}' \\
    -H 'Content-Type: application/json' -d "$1"
}
${role === "client" ? `curl --fail-with-body -sS -o /dev/null -X POST ${at}/ensure -H 'Authorization: Bearer ${token}'\n` : ""}say '{"kind": "busy", "key": "script", "ttl": "10m", "reason": "a script"}'
trap 'say "{\\"kind\\": \\"busy\\", \\"key\\": \\"script\\", \\"released\\": true}"' EXIT
"\${@:-true}"
`;
    case "Python":
      return `import json, urllib.request

AT = "${at}"
TOKEN = "${token}"

def ask(verb, body=None):
    data = json.dumps(body).encode() if body else b""
    headers = {"Authorization": "Bearer " + TOKEN}
    if body:
        headers["Content-Type"] = "application/json"
    request = urllib.request.Request(AT + "/" + verb, data=data, headers=headers, method="POST")
    with urllib.request.urlopen(request) as answer:  # an error raises HTTPError
        return answer.status

${calls.map(([verb, body]) => `print(ask("${verb}"${body ? `, ${body}` : ""}))`).join("\n")}
`;
    case "Node.js":
      return `const at = "${at}";
const token = "${token}";

async function ask(verb, body) {
  const answer = await fetch(at + "/" + verb, {
    method: "POST",
    headers: { Authorization: "Bearer " + token, ...(body && { "Content-Type": "application/json" }) },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.status;
}

${calls.map(([verb, body]) => `console.log(await ask("${verb}"${body ? `, ${body}` : ""}));`).join("\n")}
`;
    case "Go":
      return `package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
)

const (
	at    = "${at}"
	token = "${token}"
)

func ask(verb, body string) {
	r, err := http.NewRequest("POST", at+"/"+verb, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		log.Fatalf("%s: %s", answer.Status, text)
	}
	fmt.Println(answer.StatusCode)
}

func main() {
${calls.map(([verb, body]) => `\task("${verb}", \`${body}\`)`).join("\n")}
}
`;
    default:
      return "";
  }
}
