// Asks before something is done that can't be undone, or to many.
import { command, element } from "./dom.js";

// sure shows what will be done, and the command line that does the same. It gives true if a person agrees.
export function sure({ title, about = [], line, ok, danger = true }) {
  return new Promise((done) => {
    const yes = element("button", { type: "button", className: danger ? "danger" : "main", textContent: ok });
    const no = element("button", { type: "button", textContent: "Cancel" });
    const dialog = element("dialog", { className: "sure", "aria-label": title }, element("h2", { textContent: title }), about, line && element("p", {}, command(line)), element("p", { className: "answers" }, no, yes));
    let agreed = false;
    yes.onclick = () => { agreed = true; dialog.close(); };
    no.onclick = () => dialog.close();
    const left = () => dialog.close(); // the page that asked isn't shown any more
    addEventListener("hashchange", left);
    dialog.onclose = () => {
      removeEventListener("hashchange", left);
      dialog.remove();
      done(agreed);
    };
    document.body.append(dialog);
    dialog.showModal();
    no.focus(); // Enter destroys nothing
  });
}
