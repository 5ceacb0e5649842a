"""Language models and what is done with them, as people have them: more cases for test_models.py."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from models import Fn, case, labels
from models_newer import minimised

WORDS = 13


def text(b, t=6):
    return torch.randint(0, WORDS, (b, t))


def adamw(net):
    """nanoGPT's: matrices decay, vectors do not."""
    params = {n: p for n, p in net.named_parameters() if p.requires_grad}
    decay, nodecay = [p for p in params.values() if p.dim() >= 2], [p for p in params.values() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": nodecay, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), eps=1e-3)


# ---- decoders --------------------------------------------------------------------------------------------------------
class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd=8, n_head=2, block_size=8):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.0), nn.Dropout(0.0)
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))
        self.n_head, self.n_embd = n_head, n_embd

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class Block(nn.Module):
    def __init__(self, n_embd=8):
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd), CausalSelfAttention(n_embd)
        self.mlp = nn.ModuleDict(dict(c_fc=nn.Linear(n_embd, 4 * n_embd), c_proj=nn.Linear(4 * n_embd, n_embd), act=NewGELU(), dropout=nn.Dropout(0.0)))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        m = self.mlp
        return x + m.dropout(m.c_proj(m.act(m.c_fc(self.ln_2(x)))))


class MinGPT(nn.Module):
    def __init__(self, n_embd=8, n_layer=2, block_size=8):
        super().__init__()
        self.block_size = block_size
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(WORDS, n_embd), wpe=nn.Embedding(block_size, n_embd), drop=nn.Dropout(0.0),
                                              h=nn.ModuleList([Block(n_embd) for _ in range(n_layer)]), ln_f=nn.LayerNorm(n_embd)))
        self.lm_head = nn.Linear(n_embd, WORDS, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("c_proj.weight"):
                nn.init.normal_(p, mean=0.0, std=0.2 / math.sqrt(2 * n_layer))

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.2)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        b, t = idx.size()
        assert t <= self.block_size, f"Cannot forward sequence of length {t}, block size is only {self.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


@case
def mingpt_with_tied_weights():
    def batch(b):
        targets = text(b)
        targets[:, :2] = -1
        return text(b), targets

    def make(model):
        optimizer = adamw(model)

        def step(x, y):
            logits, loss = model(x, y)
            model.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        return step

    return MinGPT(), make, batch


@case
def gpt_by_micro_batches():
    """nanoGPT's loop: parts of a batch, their losses divided, one step."""

    def make(model):
        optimizer = adamw(model)

        def step(x, y):
            total = 0.0
            for micro_step in range(2):
                _, loss = model(x[micro_step], y[micro_step])
                loss = loss / 2
                loss.backward()
                total += loss.detach()
            grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return total, grad_norm

        return step

    return MinGPT(n_layer=1), make, lambda b: (torch.stack([text(b), text(b)]), torch.stack([text(b), text(b)]))


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    freqs = torch.outer(torch.arange(end), freqs).float()
    return torch.cos(freqs), torch.sin(freqs)


def apply_rotary_emb(xq, xk, freqs_cos, freqs_sin):
    xq_r, xq_i = xq.float().reshape(xq.shape[:-1] + (-1, 2)).unbind(-1)
    xk_r, xk_i = xk.float().reshape(xk.shape[:-1] + (-1, 2)).unbind(-1)
    shape = [d if i == 1 or i == xq_r.ndim - 1 else 1 for i, d in enumerate(xq_r.shape)]
    cos, sin = freqs_cos.view(shape), freqs_sin.view(shape)
    xq_out = torch.stack([xq_r * cos - xq_i * sin, xq_r * sin + xq_i * cos], dim=-1).flatten(3)
    xk_out = torch.stack([xk_r * cos - xk_i * sin, xk_r * sin + xk_i * cos], dim=-1).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def repeat_kv(x, n_rep):
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return x[:, :, :, None, :].expand(bs, slen, n_kv_heads, n_rep, head_dim).reshape(bs, slen, n_kv_heads * n_rep, head_dim)


class LlamaBlock(nn.Module):
    """llama2.c's: rotary pairs, two queries a key, SwiGLU whose size is rounded up."""

    def __init__(self, dim=16, heads=4, kv_heads=2, multiple_of=4):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.wq, self.wo = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.wk, self.wv = nn.Linear(dim, kv_heads * self.head_dim, bias=False), nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        hidden = multiple_of * ((int(2 * 4 * dim / 3) + multiple_of - 1) // multiple_of)
        self.w1, self.w2, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False), nn.Linear(dim, hidden, bias=False)
        self.attention_norm, self.ffn_norm = RMSNorm(dim), RMSNorm(dim)
        mask = torch.triu(torch.full((1, 1, 8, 8), float("-inf")), diagonal=1)
        self.register_buffer("mask", mask, persistent=False)

    def attention(self, x, cos, sin):
        b, t, _ = x.shape
        xq = self.wq(x).view(b, t, self.heads, self.head_dim)
        xk = self.wk(x).view(b, t, self.kv_heads, self.head_dim)
        xv = self.wv(x).view(b, t, self.kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, cos, sin)
        xk, xv = repeat_kv(xk, self.heads // self.kv_heads), repeat_kv(xv, self.heads // self.kv_heads)
        xq, xk, xv = xq.transpose(1, 2), xk.transpose(1, 2), xv.transpose(1, 2)
        scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(self.head_dim)
        scores = scores + self.mask[:, :, :t, :t]
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        return self.wo(torch.matmul(scores, xv).transpose(1, 2).contiguous().view(b, t, -1))

    def forward(self, x, cos, sin):
        h = x + self.attention(self.attention_norm(x), cos, sin)
        z = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(z)) * self.w3(z))


class Llama(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.tok_embeddings, self.layers, self.norm = nn.Embedding(WORDS, dim), nn.ModuleList([LlamaBlock(dim) for _ in range(2)]), RMSNorm(dim)
        self.output = nn.Linear(dim, WORDS, bias=False)
        self.tok_embeddings.weight = self.output.weight
        cos, sin = precompute_freqs_cis(dim // 4, 8)
        self.register_buffer("freqs_cos", cos, persistent=False)
        self.register_buffer("freqs_sin", sin, persistent=False)
        self.last_loss = None

    def forward(self, tokens, targets=None):
        t = tokens.shape[1]
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h, self.freqs_cos[:t], self.freqs_sin[:t])
        h = self.norm(h)
        if targets is not None:
            logits = self.output(h)
            self.last_loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        else:
            logits = self.output(h[:, [-1], :])
            self.last_loss = None
        return logits


@case
def llama2_that_keeps_its_loss():
    """The loss is an attribute of the model, as llama2.c has it."""

    def make(model):
        optimizer = adamw(model)

        def step(x, y):
            model(x, y)
            loss = model.last_loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss

        return step

    return Llama(), make, lambda b: (text(b), text(b))


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


class HuggingAttention(nn.Module):
    """Transformers' manner: position ids, a mask of the smallest number, padding, norms of queries and keys."""

    def __init__(self, dim=12, heads=2, base=10000.0):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.embed = nn.Embedding(WORDS, dim, padding_idx=0)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.q_norm, self.k_norm = nn.RMSNorm(self.head_dim, eps=1e-6), nn.RMSNorm(self.head_dim, eps=1e-6)
        inv_freq = 1.0 / (base ** (torch.arange(0, self.head_dim, 2, dtype=torch.int64).float() / self.head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.head = nn.Linear(dim, WORDS)

    def rope(self, x, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
        freqs = (inv_freq_expanded.float() @ position_ids[:, None, :].float()).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(dtype=x.dtype), emb.sin().to(dtype=x.dtype)

    def forward(self, input_ids, attention_mask):
        hidden = self.embed(input_ids)
        b, n, _ = hidden.shape
        position_ids = (attention_mask.long().cumsum(-1) - 1).masked_fill(attention_mask == 0, 1)
        min_dtype = torch.finfo(hidden.dtype).min
        causal = torch.full((n, n), fill_value=min_dtype, dtype=hidden.dtype)
        causal = torch.triu(causal, diagonal=1)
        causal = causal[None, None, :, :].expand(b, 1, -1, -1).clone()
        padding = causal[:, :, :, :n] + attention_mask[:, None, None, :]
        causal[:, :, :, :n] = causal[:, :, :, :n].masked_fill(padding == 0, min_dtype)
        q, k, v = (f(hidden).view(b, n, self.heads, self.head_dim) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = self.q_norm(q).transpose(1, 2), self.k_norm(k).transpose(1, 2), v.transpose(1, 2)
        cos, sin = (t.unsqueeze(1) for t in self.rope(v, position_ids))
        q, k = (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)
        weights = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5 + causal
        weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(b, n, -1).contiguous()
        return self.head(hidden + self.o_proj(out))


@case
def decoder_in_the_manner_of_transformers():
    def batch(b, n=6):
        mask = (torch.arange(n)[None] >= torch.randint(0, 3, (b, 1))).long()
        ids = text(b, n) * mask
        return ids, mask, torch.where(mask == 1, ids, -100)

    def loss(net, ids, mask, y):
        logits = net(ids, mask).float()
        shift_logits, shift_labels = logits[..., :-1, :].contiguous(), y[..., 1:].contiguous()
        return F.cross_entropy(shift_logits.view(-1, WORDS), shift_labels.view(-1).to(shift_logits.device))

    return minimised(HuggingAttention(), loss, batch)


# ---- state spaces, retention -----------------------------------------------------------------------------------------
class MambaBlock(nn.Module):
    """mamba-minimal's, without einops."""

    def __init__(self, d_model=6, d_inner=8, d_state=4, dt_rank=2, d_conv=3):
        super().__init__()
        self.d_inner, self.d_state, self.dt_rank = d_inner, d_state, dt_rank
        self.norm = RMSNorm(d_model)
        self.in_proj = nn.Linear(d_model, d_inner * 2, bias=False)
        self.conv1d = nn.Conv1d(d_inner, d_inner, bias=True, kernel_size=d_conv, groups=d_inner, padding=d_conv - 1)
        self.x_proj = nn.Linear(d_inner, dt_rank + d_state * 2, bias=False)
        self.dt_proj = nn.Linear(dt_rank, d_inner, bias=True)
        A = torch.arange(1, d_state + 1, dtype=torch.float32).repeat(d_inner, 1)
        self.A_log, self.D = nn.Parameter(torch.log(A)), nn.Parameter(torch.ones(d_inner))
        self.out_proj = nn.Linear(d_inner, d_model)

    def forward(self, x):
        skip = x
        _, n, _ = x.shape
        x, res = self.in_proj(self.norm(x)).split(split_size=[self.d_inner, self.d_inner], dim=-1)
        x = self.conv1d(x.transpose(1, 2))[:, :, :n].transpose(1, 2)
        y = self.ssm(F.silu(x)) * F.silu(res)
        return skip + self.out_proj(y)

    def ssm(self, x):
        A = -torch.exp(self.A_log.float())
        delta, B, C = self.x_proj(x).split(split_size=[self.dt_rank, self.d_state, self.d_state], dim=-1)
        delta = F.softplus(self.dt_proj(delta))
        return self.selective_scan(x, delta, A, B, C, self.D.float())

    def selective_scan(self, u, delta, A, B, C, D):
        b, n, d = u.shape
        deltaA = torch.exp(torch.einsum("b l d, d n -> b l d n", delta, A))
        deltaB_u = torch.einsum("b l d, b l n, b l d -> b l d n", delta, B, u)
        x, ys = torch.zeros((b, d, self.d_state), device=deltaA.device), []
        for i in range(n):
            x = deltaA[:, i] * x + deltaB_u[:, i]
            ys.append(torch.einsum("bdn,bn->bd", x, C[:, i, :]))
        return torch.stack(ys, dim=1) + u * D


@case
def mamba_minimal():
    net = nn.Sequential(nn.Embedding(WORDS, 6), MambaBlock(), MambaBlock(), RMSNorm(6), nn.Linear(6, WORDS))
    return minimised(net, lambda n, x, y: F.cross_entropy(n(x).transpose(1, 2), y), lambda b: (text(b), text(b)), adamw)


class S4D(nn.Module):
    """A diagonal state space with real poles: its kernel by exponents, the convolution as a Toeplitz product."""

    def __init__(self, d=5, n=4):
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(d) - 2)
        self.log_a = nn.Parameter(torch.log(0.5 + torch.arange(n).float()).repeat(d, 1))
        self.b, self.c, self.d = nn.Parameter(torch.randn(d, n) * 0.5), nn.Parameter(torch.randn(d, n) * 0.5), nn.Parameter(torch.randn(d))

    def kernel(self, length):
        dt, a = torch.exp(self.log_dt), -torch.exp(self.log_a)
        dta = a * dt.unsqueeze(-1)
        k = dta.unsqueeze(-1) * torch.arange(length)
        c = self.b * self.c * (torch.exp(dta) - 1.0) / a
        return torch.einsum("hn,hnl->hl", c, torch.exp(k))

    def forward(self, u):
        length = u.size(-1)
        k = self.kernel(length)
        i, j = torch.arange(length)[:, None], torch.arange(length)[None, :]
        toeplitz = torch.where(i >= j, k[:, (i - j).clamp(min=0)], torch.zeros(()))
        return F.gelu(torch.einsum("hij,bhj->bhi", toeplitz, u) + u * self.d.unsqueeze(-1))


@case
def diagonal_state_space():
    net = Fn(lambda n, x: n.head(n.s4(n.up(x).transpose(1, 2)).mean(-1)), up=nn.Linear(2, 5), s4=S4D(), head=nn.Linear(5, 3))
    groups = lambda n: torch.optim.AdamW([{"params": [p for name, p in n.named_parameters() if "log_" in name], "lr": 1e-3, "weight_decay": 0.0},  # noqa: E731
                                          {"params": [p for name, p in n.named_parameters() if "log_" not in name]}], lr=1e-2, weight_decay=0.05, eps=1e-3)
    return minimised(net, lambda n, x, y: F.cross_entropy(n(x), y), lambda b: (torch.randn(b, 7, 2), labels(b)), groups)


@case
def retention_in_two_forms():
    """RetNet: with a decay mask at once, and moment by moment with a state; the group norm after it."""

    def forward(net, x):
        b, n, d = x.shape
        h = 2
        q, k, v = (f(x).view(b, n, h, d // h).transpose(1, 2) for f in (net.q, net.k, net.v))
        gamma = 1 - torch.exp(torch.linspace(math.log(1 / 8), math.log(1 / 32), h))
        i = torch.arange(n)
        distance = (i[:, None] - i[None, :]).float()
        mask = (gamma[:, None, None] ** distance.clamp(min=0)[None]) * (distance >= 0)
        at_once = (q @ k.transpose(-1, -2) * mask[None]) @ v
        state, outs = torch.zeros(b, h, d // h, d // h), []
        for t in range(n):
            state = gamma.view(1, h, 1, 1) * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            outs.append(torch.einsum("bhd,bhde->bhe", q[:, :, t], state))
        y = at_once + 0.5 * torch.stack(outs, 2)
        y = net.norm(y.transpose(1, 2).reshape(b * n, d)).view(b, n, d)
        return net.o(F.silu(net.g(x)) * y)

    parts = {name: nn.Linear(8, 8, bias=False) for name in "qkvgo"}
    return minimised(Fn(forward, norm=nn.GroupNorm(2, 8), **parts), lambda n, x, y: F.mse_loss(n(x), y), lambda b: (torch.randn(b, 5, 8), torch.randn(b, 5, 8)))


@case
def transformer_xl_with_relative_shift():
    """A memory before the sequence, and the shift by padding and viewing anew."""

    def rel_shift(x):
        zero_pad = torch.zeros((x.size(0), 1, *x.size()[2:]), dtype=x.dtype)
        x_padded = torch.cat([zero_pad, x], dim=1)
        x_padded = x_padded.view(x.size(1) + 1, x.size(0), *x.size()[2:])
        return x_padded[1:].view_as(x)

    def forward(net, w, mems):
        qlen, bsz = w.shape[:2]
        cat = torch.cat([mems, w], 0)
        klen = cat.shape[0]
        pos_seq = torch.arange(klen - 1, -1, -1.0)
        sinusoid = torch.ger(pos_seq, net.inv_freq)
        pos = torch.cat([sinusoid.sin(), sinusoid.cos()], dim=-1)[:, None, :]
        heads_q, heads_k, heads_v = torch.chunk(net.qkv_net(net.layer_norm(cat)), 3, dim=-1)
        heads_q = heads_q[-qlen:].view(qlen, bsz, 2, 4)
        heads_k, heads_v = heads_k.view(klen, bsz, 2, 4), heads_v.view(klen, bsz, 2, 4)
        r_head_k = net.r_net(pos).view(klen, 2, 4)
        ac = torch.einsum("ibnd,jbnd->ijbn", (heads_q + net.r_w_bias, heads_k))
        bd = rel_shift(torch.einsum("ibnd,jnd->ijbn", (heads_q + net.r_r_bias, r_head_k)))
        score = (ac + bd).mul_(1 / 2)
        mask = torch.triu(w.new_ones(qlen, klen), diagonal=1 + klen - qlen).bool()[:, :, None, None]
        prob = F.softmax(score.float().masked_fill(mask, -float("inf")).type_as(score), dim=1)
        vec = torch.einsum("ijbn,jbnd->ibnd", (prob, heads_v)).contiguous().view(qlen, bsz, 8)
        return w + net.o_net(vec)

    net = Fn(forward, qkv_net=nn.Linear(8, 24, bias=False), r_net=nn.Linear(8, 8, bias=False), o_net=nn.Linear(8, 8, bias=False), layer_norm=nn.LayerNorm(8),
             r_w_bias=nn.Parameter(torch.randn(2, 4)), r_r_bias=nn.Parameter(torch.randn(2, 4)))
    net.register_buffer("inv_freq", 1 / (10000 ** (torch.arange(0.0, 8, 2.0) / 8)))
    return minimised(net, lambda n, w, m, y: F.mse_loss(n(w, m.detach()), y), lambda b: (torch.randn(4, b, 8), torch.randn(3, b, 8), torch.randn(4, b, 8)))
