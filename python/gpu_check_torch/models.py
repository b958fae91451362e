"""A model of transformers, accelerated, on a GPU: against the CPU, and its step in a CUDA graph."""

import copy

import torch
from operators import near


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=512)  # fmt: skip
    return LlamaForCausalLM(config).bfloat16().eval().requires_grad_(False)


def an_accelerated_model_is_that_of_the_cpu():
    try:
        import microscale.transformers as mstf
    except ImportError as error:
        return f"NOT RUN: {error}"
    host, x = llama(), torch.randint(3, 512, (2, 40))
    mstf.accelerate(host, "nvfp4")
    device = copy.deepcopy(host).cuda()
    near(device(x.cuda()).logits.cpu(), host(x).logits, 0.02)
    mask = torch.ones_like(x)
    mask[0, :9] = 0
    caches = mstf.Cache(40, "mxfp8"), mstf.Cache(40, "mxfp8")
    for part in (slice(0, 39), slice(39, 40)):
        found = device(
            x[:, part].cuda(), attention_mask=mask[:, : part.stop].cuda(), past_key_values=caches[0]
        ).logits
        wanted = host(x[:, part], attention_mask=mask[:, : part.stop], past_key_values=caches[1]).logits
        real = mask[:, part].bool()
        near(found.cpu()[real], wanted[real], 0.05)


def a_models_step_in_a_cuda_graph():
    try:
        import microscale.transformers as mstf
    except ImportError as error:
        return f"NOT RUN: {error}"
    model, x = llama().cuda(), torch.randint(3, 512, (2, 32), device="cuda")
    mstf.accelerate(model, "nvfp4")
    token, position = x[:, 30:31].clone(), torch.full((2, 1), 30, device="cuda")
    cache = mstf.Cache(64)
    model(x[:, :30], past_key_values=cache)

    def step():
        return model(token, position_ids=position, past_key_values=cache).logits

    def back():
        for layer in cache.layers:
            layer.tokens = 30
            layer.cache.lengths.fill_(30)

    wanted = [step().clone()]
    token.copy_(x[:, 31:32])
    position.fill_(31)
    wanted.append(step().clone())
    back()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    for i, right in enumerate(wanted):
        token.copy_(x[:, 30 + i : 31 + i])
        position.fill_(30 + i)
        graph.replay()
        assert torch.equal(result, right), f"step {i} differs from the eager one"


CHECKS = [an_accelerated_model_is_that_of_the_cpu, a_models_step_in_a_cuda_graph]
