// SPDX-License-Identifier: Apache-2.0
// rms_norm on the CPU, unoptimised: one row at a time in f32. `fk-host show rms_norm` prints the
// contract.
use fk::rms_norm::{Forward, Init, Kernel, Weights};
use fk::{load, load_out, store, Ctx, Done, Fault, Host, Need};

struct RmsNorm<'a> {
    init: &'a Init,
    weights: &'a Weights<'a>,
}

impl<'a> Kernel<'a> for RmsNorm<'a> {
    fn supports(init: &Init, weights: &Weights, max: &Forward) -> Result<Need, Fault> {
        if !max.x.is_float() || !weights.weight.map_or(true, |weight| weight.is_float()) {
            return Err(Fault::refuse("f32, bf16 and f16 only"));
        }
        Ok(Need { scratch: 3 * init.hidden_size as usize * 4, ..Need::default() })
    }

    fn create(_: &'a Host, init: &'a Init, weights: &'a Weights<'a>) -> Result<Self, Fault> {
        Ok(RmsNorm { init, weights })
    }

    fn forward(&mut self, args: &mut Forward, ctx: &mut Ctx) -> Done {
        let width = self.init.hidden_size as usize;
        if width == 0 {
            return Ok(());
        }
        let (row, rest) = ctx.scratch_of::<f32>().split_at_mut(width);
        let (other, rest) = rest.split_at_mut(width);
        let gain = &mut rest[..width];
        match self.weights.weight {
            Some(weight) => load(weight, 0, gain),
            None => gain.fill(1.0),
        }
        for at in (0..args.x.numel()).step_by(width) {
            load(args.x, at, row);
            if let Some(residual) = &mut args.residual {
                load_out(residual, at, other);
                row.iter_mut().zip(&*other).for_each(|(x, y)| *x += y);
                store(residual, at, row);
            }
            let sum: f32 = row.iter().map(|x| x * x).sum();
            let scale = 1.0 / (sum / width as f32 + self.init.eps as f32).sqrt();
            row.iter_mut().zip(&*gain).for_each(|(x, g)| *x *= scale * g);
            store(args.out, at, row);
        }
        Ok(())
    }
}
fk::op!(rms_norm, RmsNorm);
fk::plugin!("frozen_rust", "1.0.0");
