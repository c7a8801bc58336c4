"""Two pages that ask nothing of the rest of the world: what the API takes, and how busy the server is."""

from __future__ import annotations

import base64
import hashlib
import re

__all__ = ["DOCS", "STATUS", "policy"]

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c2430}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin:1.6rem 0 .3rem}code,pre{font:13px/1.4 ui-monospace,monospace}
pre{background:#f4f6f8;padding:.6rem;border-radius:6px;overflow:auto}table{border-collapse:collapse;width:100%}
td,th{padding:.25rem .6rem;border-bottom:1px solid #dde3ea;text-align:left}td.n,th.n{text-align:right}
.m{display:inline-block;min-width:4rem;font-weight:600;color:#0b5cad}input{font:inherit;padding:.2rem .4rem}
svg{width:100%;height:80px;background:#f4f6f8;border-radius:6px}.w{color:#8a1f11}
@media(prefers-color-scheme:dark){body{background:#14181e;color:#dfe6ee}pre,svg{background:#1d232b}
td,th{border-color:#333c47}.m{color:#7db8f5}}
"""

STATUS = f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>nearer: status</title><style>{_STYLE}</style>
<h1>nearer: status</h1><p id="who"></p><p id="token" hidden>Token: <input id="given" type="password"
autocomplete="off" aria-label="token"></p><p class="w" id="trouble" role="status"></p>
<h2>Requests a second</h2><svg id="load" viewBox="0 0 600 80" preserveAspectRatio="none" role="img"
aria-label="requests a second in the last five minutes"><polyline id="line" fill="none" stroke="#0b5cad"
stroke-width="2"/></svg><p id="now"></p><h2>Routes</h2><table><thead><tr><th>route<th class="n">requests
<th class="n">errors<th class="n">mean ms<th class="n">99 % below ms</thead><tbody id="routes"></tbody></table>
<p><a href="docs">What the API takes</a></p>
<script>
const $=id=>document.getElementById(id);let before=null,rates=[];
const put=(row,text,number)=>{{const cell=row.insertCell();cell.textContent=text;if(number)cell.className='n'}};
async function look(){{
  const token=$('given').value,headers=token?{{Authorization:'Bearer '+token}}:{{}};
  try{{
    const answer=await fetch('status',{{headers}});
    $('token').hidden=answer.status!==401&&!token;
    if(!answer.ok){{$('trouble').textContent='The server says '+answer.status+'.';return}}
    $('trouble').textContent='';
    const s=await answer.json(),total=Object.values(s.routes).reduce((a,r)=>a+r.requests,0);
    if(before){{rates.push(Math.max(0,(total-before.total)/(s.seconds-before.seconds||1)));rates=rates.slice(-150)}}
    before={{total,seconds:s.seconds}};
    $('who').textContent=s.method+', '+s.dimension+' dimensions, '+s.nearer_index_items.toLocaleString()+
      ' items; up '+Math.round(s.seconds).toLocaleString()+' s';
    const top=Math.max(1,...rates);
    $('line').setAttribute('points',rates.map((r,i)=>(600-4*(rates.length-1-i))+','+(78-74*r/top)).join(' '));
    $('now').textContent=(rates.at(-1)||0).toFixed(0)+' requests/s (most: '+top.toFixed(0)+'); waiting '+
      s.nearer_queue_rows+' of '+s.queue+' rows; memory '+(s.process_resident_memory_bytes/1e6).toFixed(0)+' MB';
    const body=$('routes');body.textContent='';
    for(const [name,r] of Object.entries(s.routes)){{const row=body.insertRow();put(row,name);
      put(row,r.requests.toLocaleString(),1);put(row,r.errors,1);put(row,r.mean_ms,1);put(row,r.p99_ms_below??'-',1)}}
  }}catch(error){{$('trouble').textContent='The server does not answer.'}}
}}
look();setInterval(look,2000);
</script></html>"""

DOCS = f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>nearer: API</title><style>{_STYLE}</style>
<h1>nearer: API</h1><p id="about"></p><p><a href="openapi.json">openapi.json</a> (OpenAPI 3.1) ·
<a href=".">status</a></p><main id="all"></main>
<script>
const make=(tag,text,to)=>{{const e=document.createElement(tag);e.textContent=text;to.append(e);return e}};
fetch('openapi.json').then(r=>r.json()).then(api=>{{
  document.getElementById('about').textContent=api.info.description+' Version '+api.info.version+'.';
  const all=document.getElementById('all'),schemas=api.components.schemas;
  const show=(s,depth=0)=>{{
    if(!s)return '';if(s.$ref)return show(schemas[s.$ref.split('/').pop()],depth);
    if(s.anyOf)return s.anyOf.map(o=>show(o,depth)).join(' | ');
    if(s.enum)return s.enum.map(v=>JSON.stringify(v)).join(' | ');
    if(s.type==='array')return '['+show(s.items,depth)+', ...]';
    if(s.properties){{const pad='  '.repeat(depth+1);
      return '{{\\n'+Object.entries(s.properties).map(([n,p])=>pad+JSON.stringify(n)+
      ((s.required||[]).includes(n)?'':'?')+': '+show(p,depth+1)).join(',\\n')+'\\n'+'  '.repeat(depth)+'}}'}}
    return s.type||'any'}};
  for(const [path,methods] of Object.entries(api.paths))for(const [method,op] of Object.entries(methods)){{
    const head=make('h2','',all);make('span',method.toUpperCase(),head).className='m';make('code',path,head);
    make('p',op.description||'',all);
    for(const p of op.parameters||[])
      make('p',p.name+' ('+p.in+', '+(p.schema.type||'')+'): '+(p.description||''),all);
    for(const [kind,body] of Object.entries(op.requestBody?.content||{{}}))
      make('pre',kind+'  '+show(body.schema),all);
    for(const [code,r] of Object.entries(op.responses)){{const good=r.content?.['application/json']?.schema;
      if(code<300&&good)make('pre','answer '+code+'  '+show(good),all)}}
    const table=make('table','',all);
    for(const [code,r] of Object.entries(op.responses)){{const row=table.insertRow();
      row.insertCell().textContent=code;row.insertCell().textContent=r.description}}
  }}
}});
</script></html>"""


def policy(page: str) -> dict[str, str]:
    """The header that keeps a page to itself: its own script and style, and requests to this server alone.

    >>> policy("<style>a{}</style><script>1</script>")["content-security-policy"][:18]
    "default-src 'none'"
    """

    def hashed(tag: str) -> str:
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in found]
        return " ".join(f"'sha256-{digest}'" for digest in digests)

    rules = (
        f"default-src 'none'; connect-src 'self'; script-src {hashed('script')}; "
        f"style-src {hashed('style')}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {"content-security-policy": rules, "referrer-policy": "no-referrer"}
