"use strict";
// "/" goes to the search field of the page, wherever no text is being written.
document.addEventListener("keydown", (event) => {
  const field = document.querySelector('input[type="search"]');
  if (event.key !== "/" || !field || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  field.focus();
});
// A form with data-confirm asks before it is sent.
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});
// On a narrow screen the page's own link may lie outside of the row.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
