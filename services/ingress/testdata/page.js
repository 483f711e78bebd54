// Runs the script of a waiting page as a browser does, and prints what the page shows until it reloads.
// Arguments: the address of the proxy, the host name of the page, and the file that has the page.
"use strict"
const http = require("http"), fs = require("fs"), vm = require("vm")
const [address, host, file] = process.argv.slice(2)
const page = fs.readFileSync(file, "utf8")
const script = /<script nonce="[^"]+">([^]*?)<\/script>/.exec(page)[1]

const elements = {}
globalThis.document = {
  getElementById: id => elements[id] ??= {textContent: "", replaceChildren(...lines) { this.lines = lines }},
  createElement: () => ({textContent: ""}),
}
globalThis.location = {reload() { console.log("reloads"); process.exit() }}
globalThis.fetch = (path, options) => new Promise((done, failed) => {
  const [name, port] = address.split(":")
  http.get({host: name, port, path, headers: {Host: host, ...options.headers}}, answer => {
    let text = ""
    answer.on("data", part => text += part)
    answer.on("end", () => {
      done({ok: answer.statusCode === 200, status: answer.statusCode, json: async () => JSON.parse(text)})
      setImmediate(() => console.log(elements.state.textContent, "|", (elements.stages.lines ?? []).map(l => l.textContent).join(", "), "|", elements.hint.textContent))
    })
  }).on("error", failed)
})
vm.runInThisContext(script)
if (process.argv[5] === "cancel") elements.cancel.onclick()
