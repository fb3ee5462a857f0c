(function(){
var all=[].slice.call(document.querySelectorAll("article")),bar=document.getElementById("filter");
function set(key,button){
all.forEach(function(a){a.hidden=!(key==="all"||(key==="fails"?a.hasAttribute("data-f"):a.getAttribute("data-k")===key))});
[].forEach.call(bar.querySelectorAll("[data-s]"),function(b){b.setAttribute("aria-pressed",b===button)})}
function reveal(){var t=location.hash.length>1&&document.getElementById(location.hash.slice(1));
if(!t||t.tagName!=="ARTICLE")return;
if(t.hidden)set("all",bar.querySelector("[data-s=all]"));
t.querySelector("details").open=true;t.scrollIntoView()}
function open(value){all.forEach(function(a){a.querySelector("details").open=value})}
if(bar){bar.hidden=false;bar.addEventListener("click",function(e){
var b=e.target.closest("button");if(!b)return;
if(b.hasAttribute("data-s"))set(b.getAttribute("data-s"),b);else open(b.getAttribute("data-o")==="1")})}
addEventListener("hashchange",reveal);reveal();
addEventListener("beforeprint",function(){open(true)})})();
