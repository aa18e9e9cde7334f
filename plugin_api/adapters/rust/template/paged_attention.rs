// SPDX-License-Identifier: Apache-2.0
// paged_attention on the CPU, unoptimised: one query and head at a time, with a running maximum.
// Scores are f64, because a small error of a large score changes its weight. `fk-host show
// paged_attention` prints the contract.
use fk::paged_attention::{Forward, Init, Kernel, Weights};
use fk::{load, store, Ctx, Done, Fault, Host, Need};

struct PagedAttention<'a> {
    init: &'a Init,
    weights: &'a Weights<'a>,
}

impl PagedAttention<'_> {
    // Half-open range of the keys that a query at `position` of a context of `length` keys sees.
    fn keys(&self, position: i64, length: i64) -> std::ops::Range<i64> {
        let window = self.init.window;
        let low = if window > 0 { position - window + 1 } else { 0 };
        let high = match (self.init.causal != 0, window > 0) {
            (true, _) => position + 1,
            (false, true) => position + window,
            (false, false) => length,
        };
        low.max(0)..high.min(length)
    }
}

impl<'a> Kernel<'a> for PagedAttention<'a> {
    fn supports(init: &Init, _: &Weights, max: &Forward) -> Result<Need, Fault> {
        if !max.q.is_float() || !max.k_cache.is_float() {
            return Err(Fault::refuse("f32, bf16 and f16 only"));
        }
        Ok(Need { scratch: 3 * init.head_dim as usize * 4, ..Need::default() })
    }

    fn create(_: &'a Host, init: &'a Init, weights: &'a Weights<'a>) -> Result<Self, Fault> {
        Ok(PagedAttention { init, weights })
    }

    fn forward(&mut self, args: &mut Forward, ctx: &mut Ctx) -> Done {
        let init = self.init;
        let width = init.head_dim as usize;
        let heads = init.num_heads as usize;
        let shared = heads / init.num_kv_heads as usize; // query heads of one key head
        let page_size = init.page_size as usize;
        let (q, rest) = ctx.scratch_of::<f32>().split_at_mut(width);
        let (row, rest) = rest.split_at_mut(width); // of a key or a value
        let total = &mut rest[..width];
        let starts = args.cu_seqlens.slice::<i32>();
        let lengths = args.seq_lens.slice::<i32>();
        let tables = args.block_tables.slice::<i32>();
        let pages = args.block_tables.size(1);
        for (request, &length) in lengths.iter().enumerate() {
            let (first, end) = (starts[request] as usize, starts[request + 1] as usize);
            for token in first..end {
                let position = i64::from(length) - (end - token) as i64;
                for head in 0..heads {
                    load(args.q, token * args.q.stride(0) + head * args.q.stride(1), q);
                    let sink = self.weights.sinks.map(|sinks| sinks.slice::<f32>()[head]);
                    let mut most = f64::from(sink.unwrap_or(f32::NEG_INFINITY));
                    let mut weight = if sink.is_some() { 1.0 } else { 0.0 };
                    total.fill(0.0);
                    for key in self.keys(position, length.into()) {
                        let page = tables[request * pages + key as usize / page_size] as usize;
                        let at = |view: &fk::In| {
                            page * view.stride(0)
                                + key as usize % page_size * view.stride(1)
                                + head / shared * view.stride(2)
                        };
                        load(args.k_cache, at(args.k_cache), row);
                        let products = q.iter().zip(&*row).map(|(&q, &k)| f64::from(q) * f64::from(k));
                        let mut score = products.sum::<f64>() * init.scale;
                        if init.softcap > 0.0 {
                            score = init.softcap * (score / init.softcap).tanh();
                        }
                        let above = most.max(score);
                        let before = (most - above).exp() as f32;
                        let share = (score - above).exp() as f32;
                        load(args.v_cache, at(args.v_cache), row);
                        weight = weight * before + share;
                        total.iter_mut().zip(&*row).for_each(|(t, v)| *t = *t * before + share * v);
                        most = above;
                    }
                    if weight > 0.0 {
                        total.iter_mut().for_each(|t| *t /= weight); // else 0: it sees nothing
                    }
                    store(args.out, (token * heads + head) * width, total);
                }
            }
        }
        Ok(())
    }
}
fk::op!(paged_attention, PagedAttention, edition = 2);
fk::plugin!("template_paged_attention", "0.1.0");
