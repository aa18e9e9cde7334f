(cmake -S . -B b -G Ninja -DCMAKE_BUILD_TYPE=Release -DFK_CUDA=ON -DBUILD_TESTING=ON >/dev/null && ninja -C b fk-host fk_gpu_bench plugin_cuda plugin_cublas plugin_cuda_reference) 2>&1 | tail -1
B="b/test/bench/fk_gpu_bench b/plugins"
show() { python3 -c "
import json,sys
d=json.load(sys.stdin)
for r in d['rows']: print('$1', 'batch', r['batch'], 'step ms %.3f (%.3f-%.3f)' % tuple(r['decode_step_ms'][k] for k in ('median','low','high')), 'prefill', int(r['prefill_tokens_per_s']))"; }
$B --layers 8 --batch 1 --batch 8 --batch 16 --batch 32 | show fused
$B --layers 32 --batch 1 --batch 32 | show all
cases=(test/golden/{llama,mixtral,mistral_swa,qwen3}/)
b/fk-host verify "${cases[@]}" --device cuda:0 --dtype bf16 --stress 2>&1 | tail -15
