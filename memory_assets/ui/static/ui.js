"use strict";
// "/" goes to the search field of the page, or to the search, wherever no text is being written.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
  const field = [...document.querySelectorAll('input[type="search"]')].find((each) => each.checkVisibility());
  event.preventDefault();
  if (field) field.focus();
  else document.querySelector('nav a[href$="/search"]')?.click();
});
// What was found for other words must not stay as if it fitted.
document.addEventListener("htmx:sendError", (event) => {
  const fault = document.createElement("p");
  fault.className = "fault";
  fault.setAttribute("role", "alert");
  fault.textContent = "The service does not answer; try again.";
  event.detail.target.replaceChildren(fault);
});
// A form with data-confirm asks before it is sent.
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});
// On a narrow screen the page's own link may lie outside of the row.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
