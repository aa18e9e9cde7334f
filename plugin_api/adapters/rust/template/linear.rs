// SPDX-License-Identifier: Apache-2.0
// linear on the CPU, unoptimised: one dot product per element of out. `fk-host show linear` prints
// the contract.
use fk::linear::{Forward, Init, Kernel, Weights};
use fk::{load, store, Ctx, Done, Fault, Host, Need};

struct Linear<'a> {
    init: &'a Init,
    weights: &'a Weights<'a>,
}

impl<'a> Kernel<'a> for Linear<'a> {
    fn supports(init: &Init, weights: &Weights, max: &Forward) -> Result<Need, Fault> {
        let bias = weights.bias.map_or(true, |bias| bias.is_float());
        if !max.x.is_float() || !max.out.is_float() || !weights.weight.is_float() || !bias {
            return Err(Fault::refuse("f32, bf16 and f16 only"));
        }
        Ok(Need { scratch: 2 * init.in_features as usize * 4, ..Need::default() })
    }

    fn create(_: &'a Host, init: &'a Init, weights: &'a Weights<'a>) -> Result<Self, Fault> {
        Ok(Linear { init, weights })
    }
    // prepare() is the place to repack the weight, if supports() has set Need::packed.

    fn forward(&mut self, args: &mut Forward, ctx: &mut Ctx) -> Done {
        let (inner, outer) = (self.init.in_features as usize, self.init.out_features as usize);
        let (x, rest) = ctx.scratch_of::<f32>().split_at_mut(inner);
        let w = &mut rest[..inner];
        for m in 0..args.x.size(0) {
            load(args.x, m * args.x.stride(0), x); // x may be strided
            for n in 0..outer {
                load(self.weights.weight, n * inner, w);
                let mut sum = [x.iter().zip(&*w).map(|(x, w)| x * w).sum::<f32>()];
                if let Some(bias) = self.weights.bias {
                    let mut term = [0.0];
                    load(bias, n, &mut term);
                    sum[0] += term[0];
                }
                store(args.out, m * outer + n, &sum);
            }
        }
        Ok(())
    }
}
fk::op!(linear, Linear);
fk::plugin!("template_linear", "0.1.0");
