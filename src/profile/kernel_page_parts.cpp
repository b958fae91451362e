#include "profile/kernel_page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::string row_text(const std::uint64_t* values, std::size_t count) {
  if (std::all_of(values, values + count, [&](std::uint64_t each) { return each == values[0]; }))
    return fmt::format("{:x}", values[0]);
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{}{:x}", i ? " " : "", values[i]);
  return text;
}

}  // namespace

std::string_view kernel_page_style() {
  return R"(main{max-width:1480px}.cards{grid-template-columns:repeat(auto-fit,minmax(170px,1fr))}
.panes{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px 20px;align-items:start}
.body h3{font-size:13px;margin:0 0 6px;color:var(--ms-muted);font-weight:600}
.pane{position:relative;max-height:620px;overflow:auto;border:1px solid var(--ms-line);
  border-radius:6px;-webkit-overflow-scrolling:touch}
.pane table{font-size:12px}.pane td,.pane th{padding:2px 7px;border-bottom:0;line-height:1.5}
.pane td.t{white-space:pre-wrap;overflow-wrap:anywhere;min-width:220px;
  font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;width:100%}
.pane th{z-index:1}.pane tr.gap td{color:var(--ms-muted);text-align:center;line-height:1}
.pane tr.file td{font-weight:600;background:var(--head);padding:4px 7px}
.pane tr.label td{color:var(--ms-muted)}
.pane tr[data-s]{cursor:pointer}.pane tr.sel td{background:var(--ms-c1)}.pane tr.cold td{
  color:var(--ms-muted)}
td.bar{background:linear-gradient(to right,var(--ms-c2) var(--w),transparent var(--w))}
tbody tr.sel td.bar,tbody tr:hover td.bar{
  background:linear-gradient(to right,var(--ms-c3) var(--w),var(--ms-c1) var(--w))}
td.bad{color:#b3261e;font-weight:700}
ul.findings{margin:0;padding-left:18px;font-size:13px;overflow-wrap:anywhere}
a.mark{font:700 11px/1.5 system-ui,sans-serif;color:#fff;background:#b3261e;border-radius:3px;padding:0 5px;
  text-decoration:none}
tr:target td,span:target{background:var(--ms-c1)}svg.timeline{min-width:640px;width:100%;font-size:10px}
figure{margin:0 0 18px}figcaption{font-size:13px;margin-bottom:8px;overflow-wrap:anywhere}
figure:last-child{margin-bottom:0}figure[hidden]{display:none}
select,button{font:inherit;font-size:14px;color:inherit;background:var(--bg);border:1px solid var(--ms-line);
border-radius:6px;padding:6px 10px;max-width:100%}
select.which{display:block;width:100%;margin-bottom:14px;font-size:13px}
svg.ms .used{fill:var(--ms-bar)}svg.ms .fetched{fill:var(--ms-c1)}svg.ms .clash{fill:var(--ms-p1)}
svg.ms .untouched{fill:none;stroke:var(--ms-line)}
svg.ms text.lane{font-size:9.5px;fill:#fff;pointer-events:none}
.key{display:inline-block;width:11px;height:11px;border-radius:2px;vertical-align:-1px;margin:0 4px 0 10px}
.key.used{background:var(--ms-bar)}.key.fetched{background:var(--ms-c1)}.key.clash{background:var(--ms-p1)}
.key.untouched{border:1px solid var(--ms-line)}
.controls{display:flex;gap:8px;align-items:center;flex-wrap:wrap;margin-bottom:12px}
.controls input[type=range]{flex:1 1 160px;max-width:none;width:auto;min-width:0;margin:0;padding:0}
.controls output{font-variant-numeric:tabular-nums;font-size:13px;min-width:104px}
.now{font-size:13px;margin:0 0 10px;overflow-wrap:anywhere}
.now code{font-size:12.5px}
.lanes{display:grid;grid-template-columns:repeat(8,minmax(0,1fr));gap:4px}
.lanes div{border:1px solid var(--ms-line);border-radius:4px;padding:2px 4px 3px;min-width:0;min-height:42px;
font:11px/1.3 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.lanes div b{display:block;font-weight:400;color:var(--ms-muted);font-size:9.5px}
.lanes div.on{background:var(--ms-c1);border-color:var(--ms-c3)}.lanes div.away{opacity:.35}
.regs{margin-top:12px;max-height:330px;overflow:auto;border:1px solid var(--ms-line);border-radius:6px}
.regs td{font:12px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;padding:2px 8px;border-bottom:0}
.regs tr{cursor:pointer}.regs tr.new td{font-weight:700}.regs tr.sel td{background:var(--ms-c1)}
.regs td:last-child{width:100%;white-space:normal;overflow-wrap:anywhere}
.frag{margin-top:12px;overflow-x:auto}.frag summary{cursor:pointer;font-size:13px;
  padding:3px 0}.frag table{width:auto;font-size:11px}
.frag td,.frag th{padding:1px 5px;font:11px/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
  text-align:right;
border:1px solid var(--ms-line)}.frag td.q1{background:var(--ms-c1)}
@media (prefers-color-scheme:dark){td.bad{color:#ff9d8f}svg.ms .clash+text.lane{fill:#10161d}}
@media (max-width:1250px){.panes.wide{grid-template-columns:minmax(0,1fr)}}
@media (max-width:900px){.panes{grid-template-columns:minmax(0,1fr)}.pane{max-height:430px}}
.pane tr[hidden]{display:none!important}
@media (max-width:760px){.lanes{grid-template-columns:repeat(4,minmax(0,1fr))}.pane table,.pane tbody,
  .pane thead{display:block}
.pane thead{position:sticky;top:0;z-index:1}.pane tr{display:flex;flex-wrap:wrap}.pane td,.pane th{
  padding:1px 5px;min-width:0}
.pane tr.file td,.pane tr.gap td{flex:1}.pane td:first-child,.pane th:first-child{order:-2;flex:0 0 42px}
.pane td.t,.pane th.t{order:-1;flex:1 0 calc(100% - 42px);max-width:calc(100% - 42px);
  white-space:pre-wrap;overflow-wrap:anywhere}
.pane td.t{font-size:11px}.pane .n+.n{flex:1 1 0}.pane tbody .n+.n{padding-bottom:4px}
.pane td[colspan]+td.t{padding-bottom:4px}.pane tr.cold td[colspan],.pane tr.label td[colspan]{display:none}}
@media print{.pane,.regs{max-height:none}.controls{display:none}})";
}

std::string_view kernel_page_script() {
  // Without the characters < > and &, so that the page is well-formed XML as well.
  return R"((function(){
function all(s){return Array.from(document.querySelectorAll(s))}
function id(s){return document.getElementById(s)}
function into(box,row){if(box)box.scrollTop=row.offsetTop-box.clientHeight/2}
var figures=all('figure.access'),which=null;
function show(index){figures.forEach(function(f,i){f.hidden=i!==index});if(which)which.value=String(index)}
if(figures.length){
 which=document.createElement('select');which.className='which';
  which.setAttribute('aria-label','Access to draw');
 figures.forEach(function(f,i){var o=document.createElement('option');o.value=String(i);
  o.textContent=f.dataset.name;which.appendChild(o)});
 which.addEventListener('change',function(){show(parseInt(which.value,10))});
 figures[0].parentNode.insertBefore(which,figures[0]);
 show(Math.max(0,figures.findIndex(function(f){return f.dataset.worst==='1'})));
}
all('.pane tr[data-s]').forEach(function(row){row.addEventListener('click',function(){
 var place=row.dataset.s;
 all('.pane tr.sel').forEach(function(r){r.classList.remove('sel')});
 var same=all('.pane tr[data-s]').filter(function(r){return r.dataset.s===place});
 same.forEach(function(r){r.classList.add('sel')});
 all('.pane').forEach(function(pane){if(pane.contains(row))return;
  var first=same.find(function(r){return pane.contains(r)});if(first)into(pane,first)});
 var at=row.dataset.p===undefined?-1:figures.findIndex(function(f){return f.dataset.p===row.dataset.p});
 if(at===-1)at=figures.findIndex(function(f){return f.dataset.s===place});
 if(at!==-1)show(at);
})});
var data=JSON.parse(id('trace-data').textContent),steps=data.steps,host=id('stepper');
if(!steps.length||!host)return;
var now=0,state={},chosen=null,view='auto',follow=true;
function el(tag,cls,text){var e=document.createElement(tag);if(cls)e.className=cls;
  if(text!==undefined)e.textContent=text;return e}
var controls=el('div','controls'),panes=el('div','panes'),left=el('div'),right=el('div');
function button(text,label,act){var b=el('button','',text);b.type='button';
  b.setAttribute('aria-label',label);
 b.addEventListener('click',act);controls.appendChild(b)}
button('|\u25C0','First step',function(){go(0)});button('\u25C0','Step back',function(){go(now-1)});
button('\u25B6','Next step',function(){go(now+1)});button('\u25B6|','Last step',function(){
  go(steps.length-1)});
var range=el('input');range.type='range';range.min='0';range.max=String(steps.length-1);
  range.setAttribute('aria-label','Step');
range.addEventListener('input',function(){go(parseInt(range.value,10))});controls.appendChild(range);
var label=el('output');controls.appendChild(label);
var views=el('select');views.setAttribute('aria-label','How values are shown');
['auto','hex','unsigned','signed','float','f16 pair'].forEach(function(v){var o=el('option','',v);
  o.value=v;views.appendChild(o)});
views.addEventListener('change',function(){view=views.value;draw()});controls.appendChild(views);
var listing=el('div','pane'),table=el('table'),body=el('tbody'),rows=[];
data.code.forEach(function(c){if(c[3]){var l=el('tr','label');l.appendChild(el('td'));
  l.appendChild(el('td','t',c[3]+':'));body.appendChild(l)}
 var r=el('tr');r.hidden=!c[1];r.appendChild(el('td','n',String(c[0])));
  r.appendChild(el('td','t',c[1]));body.appendChild(r);rows.push(r)});
table.appendChild(body);listing.appendChild(table);left.appendChild(listing);
var said=el('p','now'),lanes=el('div','lanes'),cells=[],regs=el('div','regs'),frag=el('div','frag');
for(var i=0;i!==32;i++){var c=el('div');cells.push(c);lanes.appendChild(c)}
right.appendChild(said);right.appendChild(lanes);right.appendChild(frag);right.appendChild(regs);
panes.appendChild(left);panes.appendChild(right);host.appendChild(controls);host.appendChild(panes);
function values(text){var v=text.split(' ').map(function(h){return BigInt('0x'+h)});
 while(v.length!==32)v.push(v[0]);return v}
var scratch=new DataView(new ArrayBuffer(8));
function below(a,b){return Math.sign(Number(a-b))===-1}
function half(b){var e=b/1024%32|0,m=b%1024,s=b/32768|0?-1:1;
 return s*(e===31?(m?NaN:Infinity):e?Math.pow(2,e-15)*(1+m/1024):Math.pow(2,-24)*m)}
function short(x){return Object.is(x,
  -0)?'-0':Number.isInteger(x)?String(x):String(parseFloat(x.toPrecision(6)))}
function real(v,bits){if(bits===64){scratch.setBigUint64(0,v);return short(scratch.getFloat64(0))}
 if(bits===16)return short(half(Number(v)));scratch.setUint32(0,Number(v));
  return short(scratch.getFloat32(0))}
function pair(v){var w=Number(v);return short(half(w%65536))+', '+short(half(Math.floor(w/65536)%65536))}
function place(v){for(var i=0;i!==data.buffers.length;i++){var b=data.buffers[i],base=BigInt('0x'+b[1]);
 if(!below(v,base)){if(below(v,base+BigInt(b[2])))return b[0]+'+0x'+(v-base).toString(16)}}return null}
function shown(v,bits,type){
 var how=view==='auto'?type:view;
 if(bits===1)return v?'true':'false';
 if(how==='hex')return '0x'+v.toString(16);
 if(how==='unsigned')return v.toString();
 if(how==='signed')return BigInt.asIntN(bits,v).toString();
 if(how==='float')return real(v,bits);
 if(how==='f16 pair')return pair(v);
 if(/^f(16|32|64)$/.test(how))return real(v,bits);
 if(how==='f16x2')return pair(v);
 if(bits===64)return place(v)||(below(v,BigInt(65536))?v.toString():BigInt.asIntN(64,v).toString());
 if(/^s/.test(how))return BigInt.asIntN(bits,v).toString();
 if(/^b/.test(how))return below(v,BigInt(65536))?v.toString():'0x'+v.toString(16);
 return v.toString();
}
function typeOf(text,name){if(/^%f\d/.test(name))return 'f32';if(/^%fd\d/.test(name))return 'f64';
 var plain=text.replace(/^@!?%p\d+ /,'').replace(/\/\/.*/,'').replace(/[\[{%].*/,'');
 var t=plain.match(/\.(f16x2|bf16x2|f16|bf16|f32|f64|s8|s16|s32|s64|u8|u16|u32|u64|b8|b16|b32|b64)/g);
 return t?t[/^cvt/.test(plain)?0:t.length-1].slice(1):'b32'}
function summary(e){var v=e.v,f=function(x){return shown(x,e.bits,e.type)};
 if(v.every(function(x){return x===v[0]}))return f(v[0])+' in every lane';
 return v.slice(0,6).map(f).join(', ')+', ...'}
function go(to){now=Math.min(steps.length-1,Math.max(0,to));state={};
 for(var s=0;s!==now+1;s++){steps[s][3].forEach(function(w){var r=data.regs[w[0]];
  state[w[0]]={name:r[0],bits:r[1],type:typeOf(data.code[steps[s][0]][1],r[0]),v:values(w[1]),at:s}})}
 var made=steps[now][3];if(made.length)chosen=String(made[0][0]);else if(steps[now][4])chosen='address';
 draw()}
function mini(code,exponent,mantissa){var bias=Math.pow(2,exponent-1)-1,m=code%Math.pow(2,mantissa);
 var e=Math.floor(code/Math.pow(2,mantissa))%Math.pow(2,exponent),s=Math.floor(code/Math.pow(2,
  mantissa+exponent))%2?-1:1;
 if(exponent===5){if(mantissa===2){if(e===31)return m?NaN:s*Infinity}}
 if(exponent===4){if(mantissa===3){if(e===15){if(m===7)return NaN}}}
 return s*(e?Math.pow(2,e-bias)*(1+m/Math.pow(2,mantissa)):Math.pow(2,1-bias-mantissa)*m)}
var elements={f32:32,s32:32,tf32:32,f16:16,bf16:16,s8:8,u8:8,e4m3:8,e5m2:8,e3m2:8,e2m3:8,e2m1:8};
function element(code,type,bits){
 if(type==='f32'||type==='tf32')return real(BigInt(code),32);
 if(type==='bf16')return real(BigInt(code*65536),32);
 if(type==='f16')return short(half(code));
 if(/^s/.test(type))return BigInt.asIntN(bits,BigInt(code)).toString();
 if(type==='u8')return String(code);
 if(type==='e2m1')return short(mini(bits===8?Math.floor(code/4)%16:code,2,1));
 return short(mini(code,parseInt(type[1],10),parseInt(type[3],10)))}
function fragment(title,names,count,width,type,bits,at,open){
 var box=el('details'),t=el('table'),byName={};box.open=open;box.appendChild(el('summary','',title));
 Object.keys(state).forEach(function(k){byName[state[k].name]=state[k]});
 for(var r=0;r!==count;r++){var tr=el('tr');for(var c=0;c!==width;c++){
  var p=at(r,c),e=byName[names[p[1]]],text='?';
  if(e)text=element(Math.floor(Number(e.v[p[0]])/Math.pow(2,bits*p[2]))%Math.pow(2,bits),type,bits);
  var td=el('td',Math.floor(p[0]/4)%2?'q1':'',text);
  td.title='row '+r+', column '+c+': lane '+p[0]+', '+names[p[1]]+', item '+p[2];
  tr.appendChild(td)}t.appendChild(tr)}
 box.appendChild(t);frag.appendChild(box)}
function fragments(text){
 var shape=/\bmma\.sync.*\.m16n8k(\d+)/.exec(text);if(!shape)return;
 var k=parseInt(shape[1],10),
  types=text.match(/\.(f32|s32|tf32|f16|bf16|s8|u8|e4m3|e5m2|e3m2|e2m3|e2m1)(?=[. ])/g).map(function(x){
  return x.slice(1)});
 var lists=text.match(/\{[^}]*\}/g).map(function(x){return x.slice(1,-1).split(',').map(function(n){
  return n.trim()})});
 function width(type){return type==='e2m1'?(/kind::mxf4/.test(text)?4:8):elements[type]}
 var d=width(types[0]),a=width(types[1]),b=width(types[2]),ai=32/a,bi=32/b,di=32/d;
 fragment('D, 16 x 8, '+types[0]+' (shades: groups of four lanes)',lists[0],16,8,types[0],d,function(r,c){
  var e=2*Math.floor(r/8)+c%2;return [4*(r%8)+Math.floor(c/2),Math.floor(e/di),e%di]},true);
 fragment('A, 16 x '+k+', '+types[1],lists[1],16,k,types[1],a,function(r,c){
  return [4*(r%8)+Math.floor(c/ai)%4,Math.floor(r/8)+2*Math.floor(c/(4*ai)),c%ai]},false);
 fragment('B, '+k+' x 8, '+types[2],lists[2],k,8,types[2],b,function(r,c){
  return [4*c+Math.floor(r/bi)%4,Math.floor(r/(4*bi)),r%bi]},false)}
function draw(){
 var step=steps[now],code=data.code[step[0]],here=step[1],took=step[2];
 range.value=String(now);label.textContent='step '+(now+1)+' of '+steps.length;
 rows.forEach(function(r,i){r.classList.toggle('sel',i===step[0])});into(listing,rows[step[0]]);
 var e=state[chosen];
 if(chosen==='address'){var a=step[4];e=a?{name:'address',bits:64,type:'b64',v:values(a[1]),at:now}:null}
 said.textContent='';said.appendChild(el('code','',code[1]));
 said.appendChild(document.createTextNode((code[2]?'  ('+code[2]+')':'')+(e?'  drawn: '+e.name:'')));
 cells.forEach(function(cell,i){
  var bit=Math.floor(here/Math.pow(2,i))%2,on=Math.floor(took/Math.pow(2,i))%2;
  cell.className=on?'on':bit?'':'away';cell.textContent='';cell.appendChild(el('b','',String(i)));
  if(e)cell.appendChild(document.createTextNode(shown(e.v[i],e.bits,e.type)));
  cell.title='lane '+i+(on?'':bit?': its guard is false':': elsewhere or ended')});
 frag.textContent='';
 fragments(code[1]);
 regs.textContent='';var t=el('table'),b=el('tbody');
 function line(key,x){var r=el('tr',(x.at===now?'new':'')+(key===chosen?' sel':''));
  r.appendChild(el('td','',x.name));r.appendChild(el('td','',summary(x)));
  r.addEventListener('click',function(){chosen=key;draw()});b.appendChild(r)}
 if(step[4])line('address',{name:'address',bits:64,type:'b64',v:values(step[4][1]),at:now});
 Object.keys(state).sort(function(x,y){return state[y].at-state[x].at||x-y}).forEach(function(k){
  line(k,state[k])});
 t.appendChild(b);regs.appendChild(t);
}
document.addEventListener('keydown',function(e){if(/INPUT|SELECT/.test(e.target.tagName))return;
 if(e.key==='n')go(now+1);if(e.key==='p')go(now-1)});
var asked=/^#step-(\d+)$/.exec(location.hash);go(asked?parseInt(asked[1],10)-1:0);
})();)";
}

std::string trace_json(const KernelProfile& profile) {
  const emulator::LaunchReport& report = profile.report;
  Json json{{"code", Json::array()},
            {"regs", Json::array()},
            {"steps", Json::array()},
            {"buffers", Json::array()}};
  for (const ProfiledInstruction& each : profile.instructions)
    json["code"].push_back({each.count.ptx_line, each.implied ? "" : each.text,
                            each.file ? place_of(profile, each.file, each.line) : "", each.label});
  for (const emulator::RegisterName& each : report.registers)
    json["regs"].push_back({each.name, each.bits});
  for (const NamedBuffer& each : profile.buffers)
    json["buffers"].push_back({each.name, fmt::format("{:x}", each.address), each.bytes});
  for (const emulator::TraceStep& step : report.trace) {
    Json written = Json::array();
    for (const emulator::RegisterValues& each : step.written)
      written.push_back({each.index, row_text(each.lanes.data(), each.lanes.size())});
    Json row{step.instruction, step.here, step.lanes, std::move(written)};
    if (step.access.lanes) row.push_back({step.access.bytes, row_text(step.access.address, 32)});
    json["steps"].push_back(std::move(row));
  }
  std::string out;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&')
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

}  // namespace microscale
