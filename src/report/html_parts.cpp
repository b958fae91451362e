// Style, script and building blocks of the HTML report.
#include "report/html_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/svg.hpp"

namespace microscale {

std::string_view page_style() {
  return R"(*{box-sizing:border-box}
:root{color-scheme:light dark;--bg:#f5f7f9;--card:#ffffff;--head:#f0f3f6;--accent:#245a94}
@media (prefers-color-scheme:dark){:root{--bg:#10151b;--card:#171e26;--head:#1e2731;--accent:#79b0d8}}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--ms-text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1160px;margin:0 auto;padding:28px 20px 40px}
h1{font-size:26px;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:17px;line-height:1.3;margin:0}
p{margin:4px 0 0}.note{color:var(--ms-muted);font-size:13px;max-width:100ch}
.sub{color:var(--ms-muted);overflow-wrap:anywhere}
section{background:var(--card);border:1px solid var(--ms-line);border-radius:10px;padding:18px 20px 20px;
margin-top:16px;min-width:0}
section .body{margin-top:14px;min-width:0}
.cards{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:12px;margin-top:20px}
.card{background:var(--card);border:1px solid var(--ms-line);border-radius:10px;padding:12px 16px;
min-width:0}
.card b{display:block;font-size:22px;line-height:1.3;font-weight:600;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
.card span{color:var(--ms-muted);font-size:13px;display:block;line-height:1.4}
.pair{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px 28px;align-items:start}
.pair div{min-width:0}
.scroll{overflow-x:auto;-webkit-overflow-scrolling:touch;max-width:100%}
.tall{max-height:640px;overflow-y:auto}
table{border-collapse:collapse;font-size:13px;line-height:1.4;width:100%}
th,td{padding:5px 10px;text-align:left;white-space:nowrap;border-bottom:1px solid var(--ms-line)}
th{font-weight:600;background:var(--head);position:sticky;top:0}
tr:last-child td{border-bottom:0}
tbody tr:hover td{background:var(--head)}
.n{text-align:right;font-variant-numeric:tabular-nums}
code,.code{font:12px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
th.key{cursor:pointer}th.key:hover{color:var(--accent)}
th[aria-sort=ascending]::after{content:" \25B4"}th[aria-sort=descending]::after{content:" \25BE"}
.block{padding-top:14px;margin-top:14px;border-top:1px solid var(--ms-line)}
.block:first-child{padding-top:0;margin-top:0;border-top:0}
.block p{margin:0 0 8px;font-size:13px;overflow-wrap:anywhere}
.block td,.block th{padding:3px 7px;font-size:12px}
.lines{display:flex;flex-wrap:wrap;gap:10px 22px}
.lines .scroll{flex:0 1 auto}.lines table{width:auto}
td.words{white-space:normal;min-width:120px}
td.code{white-space:normal;overflow-wrap:anywhere;min-width:172px}
td.worst{color:#b3261e;font-weight:700}
@media (prefers-color-scheme:dark){td.worst{color:#ff9d8f}}
input{font:inherit;font-size:16px;width:100%;max-width:340px;padding:6px 10px;margin-bottom:10px;
color:inherit;background:var(--bg);border:1px solid var(--ms-line);border-radius:6px}
footer{color:var(--ms-muted);font-size:13px;margin-top:20px;overflow-wrap:anywhere}
@media (max-width:760px){main{padding:18px 12px 28px}h1{font-size:21px}section{padding:14px 12px 14px}
.cards{grid-template-columns:repeat(2,minmax(0,1fr));gap:8px;margin-top:14px}.card{padding:9px 11px}
.card b{font-size:18px}.pair{grid-template-columns:minmax(0,1fr)}th,td{padding:4px 8px}}
@media print{body{background:none}.tall{max-height:none}input{display:none}})";
}

std::string_view page_script() {
  // Without the characters < and &, so that the page is well-formed XML as well.
  return R"((function(){
function key(row,i){var v=row.cells[i].dataset.v;return v===undefined?row.cells[i].textContent:parseFloat(v)}
document.querySelectorAll('table.sortable').forEach(function(table){
 var heads=Array.from(table.tHead.rows[0].cells),body=table.tBodies[0];
 heads.forEach(function(head,i){
  function sort(){
   var state=head.getAttribute('aria-sort'),first=head.classList.contains('n')?'descending':'ascending';
   var next=state===null?first:state==='ascending'?'descending':'ascending',sign=next==='ascending'?1:-1;
   heads.forEach(function(other){other.removeAttribute('aria-sort')});
   head.setAttribute('aria-sort',next);
   var rows=Array.from(body.rows).map(function(row){return [key(row,i),row]});
   rows.sort(function(a,b){
    return sign*(typeof a[0]==='string'?a[0].localeCompare(b[0],'en',{numeric:true}):a[0]-b[0])});
   rows.forEach(function(pair){body.appendChild(pair[1])});
  }
  head.tabIndex=0;head.classList.add('key');
  head.addEventListener('click',sort);
  head.addEventListener('keydown',function(e){if(e.key==='Enter'||e.key===' '){e.preventDefault();sort()}});
 });
 var box=document.createElement('input');
 box.type='search';box.placeholder='Filter by name';box.setAttribute('aria-label','Filter by name');
 box.addEventListener('input',function(){
  Array.from(body.rows).forEach(function(row){row.hidden=!row.cells[0].textContent.includes(box.value)})});
 table.parentNode.parentNode.insertBefore(box,table.parentNode);
});
})();)";
}

HtmlTable::HtmlTable(std::string_view caption, Use use) {
  head_ = fmt::format(
      R"(<div class="scroll{}" tabindex="0" role="region" aria-label="{}"><table{}><thead><tr>)",
      use == Use::sort ? " tall" : "", escape_markup(caption),
      use == Use::sort ? R"( class="sortable")" : "");
}

void HtmlTable::column(std::string_view title, bool number, std::string_view tooltip) {
  head_ += fmt::format("<th scope=\"col\"{}{}>{}</th>", number ? " class=\"n\"" : "",
                       tooltip.empty() ? "" : fmt::format(" title=\"{}\"", escape_markup(tooltip)),
                       escape_markup(title));
}

void HtmlTable::begin_row() {
  if (row_open_) body_ += "</tr>\n";
  body_ += "<tr>";
  row_open_ = true;
}

void HtmlTable::text(std::string_view text, bool code) {
  if (!code) {
    body_ += fmt::format("<td>{}</td>", escape_markup(text));
    return;
  }
  // Names may be broken after a dot or underscore.
  body_ += "<td class=\"code\">";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of("._"), text.size() - 1) + 1;
    body_ += escape_markup(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty()) body_ += "<wbr />";
  }
  body_ += "</td>";
}

void HtmlTable::words(std::string_view text) {
  body_ += fmt::format("<td class=\"words\">{}</td>", escape_markup(text));
}

void HtmlTable::number(std::string_view shown, double key) {
  // What is no number is sorted below every number, infinity above.
  const double sorted = std::isnan(key) ? -1e300 : std::clamp(key, -1e299, 1e300);
  body_ += fmt::format("<td class=\"n\" data-v=\"{}\">{}</td>", sorted, escape_markup(shown));
}

std::string HtmlTable::done() {
  if (row_open_) body_ += "</tr>\n";
  row_open_ = false;
  return head_ + "</tr></thead>\n<tbody>\n" + body_ + "</tbody></table></div>\n";
}

std::string section(std::string_view id, std::string_view title, std::string_view explanation,
                    const std::string& content) {
  if (content.empty()) return {};
  const std::string note =
      explanation.empty() ? ""
                          : fmt::format("<p class=\"note\">{}</p>", escape_markup(explanation));
  return fmt::format("<section id=\"{}\"><h2>{}</h2>{}\n<div class=\"body\">{}</div></section>\n",
                     id, escape_markup(title), note, content);
}

}  // namespace microscale
