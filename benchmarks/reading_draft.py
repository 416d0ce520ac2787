"""Draft: the reading alone, trained on kept states of the base and tested on all suites; several times as fast as a whole run."""
import sys, time, torch, random, math, dataclasses
from peft import get_peft_model
from peft_igc import tiny_base
from peft_igc.demo import demo_config, training_rows
from peft_igc.demo_settings import SETTINGS
from peft_igc.data import bigbench_test_set
from peft_igc.suites import suites, ARITHMETIC, SILENT
from peft_igc.columns import check_columns, encode_steps
from peft_igc.reading import Targets, reading_loss
from peft_igc.steps import calculate_step
from peft_igc.calculator import Status
from peft_igc.optimizer import MuonAdamW
from peft_igc.digits import decode
name=sys.argv[1]; O=dict(steps=600,bs=128,seed=0,lr=3e-3,muon=4e-3,wd=.01,n=500,conf=[0.,.9,.99],drop=0.0,evalevery=0)
O.update(eval(sys.argv[2]) if len(sys.argv)>2 else {})
cfgover=O.pop('cfg',{}); setover=O.pop('set',{})
torch.manual_seed(O['seed']); torch.set_num_threads(int(O.get('threads',2)))
s=dataclasses.replace(SETTINGS['tokens'],**setover)
base,tok=tiny_base(); cfg=demo_config(tok,s)
for k,v in cfgover.items(): setattr(cfg,k,v)
m=get_peft_model(base,cfg); lay=[x for x in m.modules() if type(x).__name__=='IGCLayer'][0]; reader=lay.igc_input_mapping['default']
inner=base.model
def ids_of(msgs):
    texts=tok.apply_chat_template(msgs,tokenize=False,add_generation_prompt=True); return tok(texts,add_special_tokens=False)['input_ids']
@torch.no_grad()
def states(ids):
    out=[]; order=sorted(range(len(ids)),key=lambda i:len(ids[i])); res=[None]*len(ids)
    L2=inner.layers
    for i in range(0,len(ids),256):
        ch=order[i:i+256]; w=max(len(ids[j]) for j in ch); x=torch.zeros(len(ch),w,dtype=torch.long); mk=torch.zeros_like(x)
        for r,j in enumerate(ch): x[r,:len(ids[j])]=torch.tensor(ids[j]); mk[r,:len(ids[j])]=1
        cap={}
        h1=L2[0].register_forward_pre_hook(lambda mod,a,k: cap.__setitem__('e',a[0] if a else k['hidden_states']),with_kwargs=True)
        h2=L2[1].register_forward_hook(lambda mod,a,o: cap.__setitem__('h',o if torch.is_tensor(o) else o[0]))
        sv=inner.layers; inner.layers=torch.nn.ModuleList(list(sv)[:2]); inner.config.num_hidden_layers=2
        with m.disable_adapter(): inner(input_ids=x,attention_mask=mk,use_cache=False)
        inner.layers=sv; h1.remove(); h2.remove()
        for r,j in enumerate(ch): n=len(ids[j]); res[j]=(x[r,:n],cap['e'][r,:n].bfloat16(),cap['h'][r,:n].bfloat16())
    return res
def pack(items):
    w=max(len(i[0]) for i in items); b=len(items); H=items[0][1].shape[-1]
    ids=torch.zeros(b,w,dtype=torch.long); e=torch.zeros(b,w,H); h=torch.zeros(b,w,H); v=torch.zeros(b,w,dtype=torch.bool); a=torch.zeros(b,1,dtype=torch.long)
    for r,(x,ee,hh) in enumerate(items):
        n=len(x); ids[r,:n]=x; e[r,:n]=ee; h[r,:n]=hh; v[r,:n]=True; a[r,0]=n-1
    return ids,e,h,v,a
import torch.nn.functional as F
enc0=reader._encode
def enc1(x,visible,layers):
    if reader.training:
        if O.get('word'): x=x*(torch.rand(x.shape[:2],device=x.device)>=O['word'])[...,None]
        if O.get('feat'): x=F.dropout(x,O['feat'])
    return enc0(x,visible,layers)
reader._encode=enc1
if O.get('blockdrop'):
    for b in list(reader.encoder)+[reader.reader]:
        b.attention.output_map.register_forward_hook(lambda mod,a,o: F.dropout(o,O['blockdrop'],mod.training))
        b.ffn_down.register_forward_hook(lambda mod,a,o: F.dropout(o,O['blockdrop'],mod.training))
t0=time.time()
rows=training_rows(bigbench_test_set(200,0),O['seed'],s)
rows=rows.rows if hasattr(rows,'rows') else rows.take(10000)

import pydoc_data.topics, re
prose=[]
for t in pydoc_data.topics.topics.values():
    t=re.sub(r'\s+',' ',t); 
    for q in re.split(r'(?<=[.?!:]) ',t):
        if 20<=len(q)<=110 and re.fullmatch(r"[A-Za-z ,.'?!-]+",q): prose.append(q.rstrip(':.')+'.')
prose=sorted(set(prose)); words=sorted({w for q in prose for w in re.findall(r"[a-z]{2,}",q.lower())}); print(len(prose),len(words))
ar=random.Random(77)
OPW='times plus minus sum product divided total left each altogether difference more less fewer add subtract multiply divide quotient by from to than in all how many what is of and + - * / x = with equals per every share take away give remain answer result'.split()
def num(): 
    k=ar.choice([1,1,2,2,3,4,4,5,6]); n=str(ar.randrange(10**(k-1) if k>1 else 0,10**k)); return n
def numbered(w,k):
    for _ in range(k):
        i=ar.randint(1,len(w)); x=num(); f=ar.random()
        if f<.1: x=x+ar.choice(['%','kg','th',':30','.5'])
        elif f<.15: x='('+x+')'
        w.insert(i,x)
    return w
def sentence():
    if ar.random()<.5: w=ar.choice(prose)[:-1].split()
    else: w=[(ar.choice(OPW) if ar.random()<.25 else ar.choice(words)) for _ in range(ar.randint(2,9))]; w[0]=w[0].capitalize()
    w=w[:ar.randint(4,14)]
    w=numbered(w,ar.choice([0,1,1,1,2])); return ' '.join(w)+ar.choice(['.','.','.','!',':','?'])
if O.get('noise'):
    out=[]
    for r in rows:
        u=r['prompt'][-1]['content']; k=ar.random()
        if k<.15*O['noise']: u=u[:1].lower()+u[1:]
        elif k<.25*O['noise']: u=u.lower()
        k=ar.random()
        if k<.2*O['noise'] and u[-1:] in '.?:!' and len(u)>3: u=u[:-1]
        out.append({**r,'prompt':r['prompt'][:-1]+[{'role':'user','content':u}]})
    rows=out
if O.get('aug'):
    out=[]
    for r in rows:
        u=r['prompt'][-1]['content']
        if ar.random()<O['aug']:
            k=ar.random()
            if k<.45: u=sentence()+ar.choice([' ','\n','\n\n'])+u
            elif k<.8: u=u+ar.choice([' ','\n'])+sentence()
            else: u=sentence()+' '+u+' '+sentence()
        out.append({**r,'prompt':r['prompt'][:-1]+[{'role':'user','content':u}]})
    rows=out
    for i in ar.sample(range(len(rows)),int(O.get('pn',.05)*len(rows))):
        rows[i]={**rows[i],'prompt':[{'role':'user','content':' '.join(sentence() for _ in range(ar.randint(1,3)))}],'igc_operator':'none','igc_operands':None,'igc_result':None}
lim=dict(num_digits=cfg.num_digits,result_digits=cfg.result_digits,operations=cfg.operations)
steps=[check_columns(r,**lim) for r in rows]
st=states(ids_of([r['prompt'] for r in rows])); print('states',round(time.time()-t0,1),'mean len',sum(len(x[0]) for x in st)/len(st))
def msgs(p): return [{'role':'user','content':p}]
T=suites(O['n'],O.get('suiteseed',0)); TS={k:states(ids_of([msgs(i['prompt']) for i in v])) for k,v in T.items()}
def ev(show=0):
    reader.eval(); out={}
    for k,v in T.items():
        right={c:0 for c in O['conf']}; okc={c:0 for c in O['conf']}; ex=[]
        for i in range(0,len(v),250):
            ids,e,h,va,a=pack(TS[k][i:i+250])
            with torch.no_grad(): R=reader(reader.compress(h,e),va,a,ids)
            ch=R.choose(); res=calculate_step(cfg,ch,a)
            txt=[decode(res.digits[r:r+1,0],res.sign[r:r+1,0])[0] if res.status[r,0]==Status.OK else None for r in range(len(ids))]
            for r,x in enumerate(v[i:i+250]):
                for c in O['conf']:
                    ok=txt[r] is not None and ch.probability[r,0]>=c
                    right[c]+= (txt[r] if ok else None)==x['target']; okc[c]+=int(ok)
                good=txt[r]==x['target']
                if not good: ex.append((round(float(ch.probability[r,0]),4),x['prompt'][-110:],x['target'],txt[r]))
        out[k]=(right,okc); 
        print(f"  {k:20s}", {c:(round(right[c]/len(v),4) if k in ARITHMETIC else okc[c]) for c in O['conf']},flush=True)
        for x in sorted(ex,reverse=True)[:show]: print('       ',x)
    reader.train()
params=[p for p in reader.parameters()]; mats=[p for n,p in reader.named_parameters() if p.dim()==2 and min(p.shape)>1 and 'relative' not in n and 'slots' not in n]
rest=[p for p in params if all(p is not q for q in mats)]
muon=torch.optim.Muon([{'params':mats,'lr':O['muon'],'base':O['muon']}],weight_decay=O['wd'],adjust_lr_fn='match_rms_adamw') if O['muon'] else None
adam=torch.optim.AdamW(rest if muon else params,lr=O['lr'],weight_decay=O['wd'],betas=(.9,.98))
rng=random.Random(O['seed']); N=len(rows); reader.train(); t0=time.time(); acc=[]
def batches():
    while True:
        order=rng.sample(range(N),N)
        for i in range(0,N-16*O['bs']+1,16*O['bs']):
            lot=sorted(order[i:i+16*O['bs']],key=lambda j:len(st[j][0])); bs=[lot[k:k+O['bs']] for k in range(0,len(lot),O['bs'])]; rng.shuffle(bs); yield from bs
B=batches()
for k in range(O['steps']):
    lr=min((k+1)/100,1)*(.5*(1+math.cos(math.pi*k/O['steps'])))
    for o,b in ((muon,O['muon']),(adam,O['lr'])):
        if o:
            for g in o.param_groups: g['lr']=b*lr
    idx=next(B); ids,e,h,va,a=pack([st[j] for j in idx]); enc=encode_steps([steps[j] for j in idx],num_digits=cfg.num_digits,result_digits=cfg.result_digits,operations=cfg.operations)
    tg=Targets(*(enc['igc_'+n] for n in Targets._fields))
    with torch.autocast('cpu',torch.bfloat16):
        R=reader(reader.compress(h,e),va,a,ids)
    loss,sup,cor=reading_loss(R,tg,a); l=loss.sum()/sup.sum()
    for o in (muon,adam):
        if o: o.zero_grad()
    l.backward(); torch.nn.utils.clip_grad_norm_(params,1.)
    for o in (muon,adam):
        if o: o.step()
    acc.append((l.item(),cor.float().mean().item()))
    if (k+1)%100==0: print(k+1,[round(sum(x[i] for x in acc[-100:])/100,4) for i in (0,1)],round(time.time()-t0,1),flush=True)
    if O['evalevery'] and (k+1)%O['evalevery']==0: ev()
ev(O.get('show',6))
