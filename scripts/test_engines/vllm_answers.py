"""Runs vLLM in this process and prints, as one line of JSON behind RESULT, what it answered: of each prompt the
greedy tokens, their log-probabilities beside the others', and those of the prompt's tokens. An engine that gives up takes
its process along, so this is one of its own.

usage: vllm_answers.py FOLDER '{"dtype": "bfloat16", "prompts": [...], "tokens": 24, "tensor_parallel_size": 1}'
"""
import json
import sys


def main():
    from vllm import LLM, SamplingParams
    folder, words = sys.argv[1], json.loads(sys.argv[2])
    prompts, tokens = words.pop("prompts"), words.pop("tokens")
    engine = LLM(model=folder, max_model_len=256, max_num_seqs=8, **{"enforce_eager": True, **words})
    asked = [{"prompt_token_ids": one} if isinstance(one, list) else one for one in prompts]
    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, logprobs=8, prompt_logprobs=1)
    found = []
    for done in engine.generate(asked, sampling, use_tqdm=False):
        out = done.outputs[0]
        choices = [{str(token): one.logprob for token, one in every.items()} for every in out.logprobs]
        pairs = zip(done.prompt_logprobs[1:], done.prompt_token_ids[1:], strict=True)
        of_prompt = [every[token].logprob for every, token in pairs]
        found.append({"tokens": list(out.token_ids), "choices": choices, "prompt": of_prompt, "text": out.text})
    print("RESULT " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
