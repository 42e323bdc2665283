// The page of `tpu-tui serve`: it keeps the key, sends it first, and gives the terminal the keyboard.
"use strict";

(() => {
  const KEY = "key";
  const WRONG_KEY = 4403; // the server's WRONG_KEY_CODE
  const CONSOLE_FAILED = 4500; // FAILED_CODE
  const SERVER_ENDS = 1001;
  const SMALL_SCREEN_PX = 600;
  const WHOLE_ADDRESS = "Open the whole address that tpu-tui serve printed: it holds the key.";

  const terminal = document.getElementById("terminal");
  const notice = document.getElementById("notice");
  const words = document.getElementById("words");
  const again = document.getElementById("again");

  // The key stays out of the address bar, and out of cookies, which would go to every port of this host.
  const address = new URL(window.location.href);
  const given = address.searchParams.get(KEY);
  if (given) {
    address.searchParams.delete(KEY);
    history.replaceState(null, "", address.pathname + address.search);
  }
  const key = kept(given);

  // If the browser stores nothing for pages, the key is lost when the page is reloaded.
  function kept(given) {
    try {
      if (given) sessionStorage.setItem(KEY, given);
      return given || sessionStorage.getItem(KEY);
    } catch {
      return given;
    }
  }

  function forget() {
    try {
      sessionStorage.removeItem(KEY);
    } catch {
      // nothing was stored
    }
  }

  function say(text, canReload) {
    words.textContent = text;
    again.hidden = !canReload;
    notice.hidden = false;
    if (canReload) again.focus();
  }

  function focusTerminal() {
    const input = terminal.querySelector("textarea");
    if (!input || document.body.classList.contains("-closed")) return;
    if (document.activeElement === input) input.blur(); // so that the console notices the focus
    input.focus({ preventScroll: true });
  }

  function closed(code) {
    document.body.classList.add("-closed");
    if (code === WRONG_KEY) {
      forget();
      say(`This key belongs to an earlier server. ${WHOLE_ADDRESS}`, false);
    } else if (code === CONSOLE_FAILED) {
      say("The console ended with an error: see console.log in TPU_TUI_HOME. Runs continue.", true);
    } else if (code === 1000) {
      say("The console was closed. Runs continue.", true);
    } else if (code === SERVER_ENDS) {
      say("tpu-tui serve has ended. Runs continue.", true);
    } else {
      say("The connection to tpu-tui serve was lost. Runs continue.", true);
    }
  }

  // textual.js creates the socket; this class sends the key before anything else, and drops data while it is closed.
  const PlainSocket = window.WebSocket;
  window.WebSocket = class extends PlainSocket {
    constructor(url) {
      super(url);
      this.addEventListener("open", () => {
        super.send(JSON.stringify(["key", key]));
        setTimeout(focusTerminal);
      });
      this.addEventListener("message", (event) => {
        if (typeof event.data === "string" || notice.hidden) return;
        notice.hidden = true;
        focusTerminal();
      });
      this.addEventListener("close", (event) => closed(event.code));
    }
    send(data) {
      if (this.readyState === PlainSocket.OPEN) super.send(data);
    }
  };

  again.addEventListener("click", () => window.location.reload());
  window.addEventListener("focus", focusTerminal);
  document.addEventListener("visibilitychange", () => document.hidden || focusTerminal());

  if (!key) {
    document.body.classList.add("-closed");
    say(WHOLE_ADDRESS, false);
    return;
  }
  const scheme = window.location.protocol === "https:" ? "wss" : "ws";
  terminal.dataset.sessionWebsocketUrl = `${scheme}://${window.location.host}/ws`;
  terminal.dataset.fontSize = window.innerWidth < SMALL_SCREEN_PX ? "13" : "16";
  const script = document.createElement("script");
  script.src = "static/js/textual.js";
  document.body.append(script);
})();
