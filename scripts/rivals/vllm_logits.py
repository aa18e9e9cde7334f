# SPDX-License-Identifier: Apache-2.0
"""Logits of vLLM's engines with given tokens, beside the same weights in float32; vllm_gain.py asks for them."""
from vllm_engines import fill_weights, make_engine, prompts_of, sampling


def model_of(llm):
    found = llm.llm_engine.model_executor.driver_worker
    runner = getattr(found, "worker", found).model_runner
    return runner.model


def forced_logits(llm, prompts, tokens):
    """Logits of each step with the given tokens: the sampler sees a logit of 1e9 at the token to come."""
    import torch
    model, kept = model_of(llm), []
    plain = model.compute_logits

    def compute_logits(hidden, *more):
        logits = plain(hidden, *more)
        if len(kept) < len(tokens):
            kept.append(logits.float().cpu())
            logits = logits.clone()
            logits[:, tokens[len(kept) - 1]] = 1e9
        return logits

    model.compute_logits = compute_logits
    try:
        llm.generate(prompts, sampling(len(tokens)), use_tqdm=False)
    finally:
        del model.compute_logits
    return torch.stack(kept[:len(tokens)], 1)


def difference(ours, theirs):
    """rms and 99th percentile of the difference, as shares of the spread of logits."""
    error, spread_of = (ours - theirs).abs().flatten(), theirs.std().item()
    worst = error.kthvalue(max(1, round(error.numel() * 0.99))).values.item()
    return {"rms": error.square().mean().sqrt().item() / spread_of, "worst1": worst / spread_of,
            "same_choice": (ours.argmax(-1) == theirs.argmax(-1)).float().mean().item()}


def asked_logits(config):
    """Prompts and given tokens by batch, on which engines are compared."""
    return {batch: (prompts_of(config, batch, 200 + batch, batch), [7 + 13 * i for i in range(9)]) for batch in (1, 3, 8)}  # 3: a graph of 4


def precise_logits(args, packaged, folder, config, result):
    """Logits by batch of vLLM in float32 with the same weights, or None. That engine ends before the others start."""
    import gc, torch
    try:
        packaged.use([])
        engine = make_engine(folder, False, 1.0, dtype="float32")
        found = {batch: forced_logits(engine, *asked) for batch, asked in asked_logits(config).items()}
        engine.llm_engine.engine_core.shutdown()
        del engine
        fill_weights.of = None
        gc.collect()
        torch.cuda.empty_cache()
        return found
    except Exception as error:
        result["failed"]["float32"] = f"{type(error).__name__}: {str(error)[-1500:]}"
        print(f"FAILED float32: {str(error)[-1500:]}", flush=True)


def agrees(error, before):
    """The rule of fk-host for a candidate: its errors against float32 are at most 1.5 times the baseline's."""
    return all(error[part][figure] <= 1.5 * before[part][figure] for part in ("prefill", "decode") for figure in ("rms", "worst1"))


def check_logits(args, packaged, engines, ops_of, config, result, precise, save):
    for batch, (prompts, tokens) in asked_logits(config).items():
        theirs = None
        for group, engine in list(engines.items()):
            try:
                packaged.use(ops_of[group], engine.llm)
                ours = forced_logits(engine.llm, prompts, tokens)
                if group == "before":
                    theirs = ours
                again = forced_logits(engine.llm, prompts, tokens) if group == "before" else theirs
                of = result["groups"][group]["logits"][str(batch)] = {"prefill": difference(ours[:, :1], again[:, :1]), "decode": difference(ours[:, 1:], again[:, 1:])}
                if precise:
                    wanted = precise[batch]
                    of["error"] = {"prefill": difference(ours[:, :1], wanted[:, :1]), "decode": difference(ours[:, 1:], wanted[:, 1:])}
                    of["agrees"] = agrees(of["error"], result["groups"]["before"]["logits"][str(batch)]["error"])
                error = f"; error against float32 {of['error']['decode']['rms']:.4f}, {'agrees' if of['agrees'] else 'DISAGREES'}" if precise else ""
                print(f"{group:10} batch {batch}: logits against before: prefill rms {of['prefill']['rms']:.4f}, decode rms "
                      f"{of['decode']['rms']:.4f} worst1 {of['decode']['worst1']:.4f}{error}", flush=True)
            except Exception as error:
                result["failed"][group] = f"logits, batch {batch}: {type(error).__name__}: {str(error)[-1500:]}"
                print(f"FAILED {group}: {result['failed'][group]}", flush=True)
                del engines[group]
            save()
