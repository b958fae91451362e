// Written by scripts/model_families.py parts from tests/checkpoint/families.
#include "checkpoint/completeness_families.hpp"

namespace microscale {

std::string_view parts_of_families() {
  return R"(
= apertus ; . attention_layernorm feedforward_layernorm mlp self_attn ; mlp act_fn down_proj
+ up_proj ; mlp.act_fn alpha_n alpha_p ; self_attn k_norm k_proj o_proj q_norm q_proj v_proj
= arcee ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp down_proj up_proj ;
+ self_attn k_proj o_proj q_proj v_proj
= aria_text ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp experts router
+ shared_experts ; mlp.shared_experts down_proj gate_proj up_proj ; self_attn k_proj o_proj q_proj
+ v_proj
= baichuan ; . mlp self_attn ; mlp down_proj gate_proj up_proj ; self_attn W_pack o_proj
= bailing_moe ; . attention mlp ; attention dense query_key_value ; mlp experts gate
+ shared_experts ; mlp.experts.# down_proj gate_proj up_proj ; mlp.gate expert_bias ;
+ mlp.shared_experts down_proj gate_proj up_proj
= bamba ; . feed_forward input_layernorm mamba pre_ff_layernorm ; . feed_forward input_layernorm
+ pre_ff_layernorm self_attn ; feed_forward down_proj gate_proj up_proj ; mamba A_log D conv1d
+ conv1d.bias dt_bias in_proj norm out_proj ; self_attn k_proj o_proj q_proj v_proj
= bart ; . encoder_attn encoder_attn_layer_norm encoder_attn_layer_norm.bias fc1 fc1.bias fc2
+ fc2.bias final_layer_norm final_layer_norm.bias self_attn self_attn_layer_norm
+ self_attn_layer_norm.bias ; . fc1 fc1.bias fc2 fc2.bias final_layer_norm final_layer_norm.bias
+ self_attn self_attn_layer_norm self_attn_layer_norm.bias ; encoder_attn k_proj k_proj.bias
+ out_proj out_proj.bias q_proj q_proj.bias v_proj v_proj.bias ; self_attn k_proj k_proj.bias
+ out_proj out_proj.bias q_proj q_proj.bias v_proj v_proj.bias
= chatglm ; . input_layernorm mlp self_attention ; mlp dense_4h_to_h dense_h_to_4h ;
+ self_attention dense query_key_value
= clip_text_model ; . layer_norm1 layer_norm1.bias layer_norm2 layer_norm2.bias mlp self_attn ;
+ mlp fc1 fc1.bias fc2 fc2.bias ; self_attn k_proj k_proj.bias out_proj out_proj.bias q_proj
+ q_proj.bias v_proj v_proj.bias
= cohere cohere2 ; . input_layernorm mlp self_attn ; mlp down_proj gate_proj up_proj ; self_attn
+ k_proj o_proj q_proj v_proj
= dbrx ; . ffn norm_attn_norm ; ffn experts router ; ffn.router layer ; norm_attn_norm attn
+ norm_1 norm_2 ; norm_attn_norm.attn Wqkv out_proj
= deepseek_v2 deepseek_v3 kimi_k2 ; . input_layernorm mlp post_attention_layernorm self_attn ;
+ mlp down_proj gate_proj up_proj ; mlp experts gate shared_experts ; mlp.experts.# down_proj
+ gate_proj up_proj ; mlp.gate e_score_correction_bias ; mlp.shared_experts down_proj gate_proj
+ up_proj ; self_attn kv_a_layernorm kv_a_proj_with_mqa kv_b_proj o_proj q_a_layernorm q_a_proj
+ q_b_proj
= deepseek_v32 ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp down_proj
+ gate_proj up_proj ; mlp experts gate shared_experts ; mlp.experts.# down_proj gate_proj up_proj
+ ; mlp.gate e_score_correction_bias ; mlp.shared_experts down_proj gate_proj up_proj ; self_attn
+ indexer kv_a_layernorm kv_a_proj_with_mqa kv_b_proj o_proj q_a_layernorm q_a_proj q_b_proj ;
+ self_attn.indexer k_norm k_norm.bias weights_proj wk wq_b
= deepseek_v4 ; . attn attn_norm ffn ffn_norm hc_attn_base hc_attn_fn hc_attn_scale hc_ffn_base
+ hc_ffn_fn hc_ffn_scale ; attn attn_sink compressor norm q_norm wkv wo_a wo_b wq_a wq_b ;
+ attn.compressor ape norm wgate wkv ; ffn experts gate shared_experts ; ffn.experts.# w1 w2 w3 ;
+ ffn.gate tid2eid ; ffn.shared_experts w1 w2 w3
= dots1 ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp down_proj gate_proj
+ up_proj ; mlp experts gate shared_experts ; mlp.experts.# down_proj gate_proj up_proj ; mlp.gate
+ e_score_correction_bias ; mlp.shared_experts down_proj gate_proj up_proj ; self_attn k_norm
+ k_proj o_proj q_norm q_proj v_proj
= ernie4_5 gemma granite llama mimo minicpmo minicpmv ministral3 mistral mllama_text_model
+ smollm3 ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp down_proj gate_proj
+ up_proj ; self_attn k_proj o_proj q_proj v_proj
= ernie4_5_moe ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp down_proj
+ gate_proj up_proj ; mlp experts gate moe_statics shared_experts ; mlp.experts.# down_proj
+ gate_proj up_proj ; mlp.moe_statics e_score_correction_bias ; mlp.shared_experts down_proj
+ gate_proj up_proj ; self_attn k_proj o_proj q_proj v_proj
= ernie4_5_moe_vl ; . mlp self_attn ; mlp experts gate moe_statics shared_experts ;
+ mlp.experts.# down_proj gate_proj up_proj ; mlp.moe_statics e_score_correction_bias ;
+ mlp.shared_experts down_proj gate_proj up_proj ; self_attn k_proj o_proj q_proj v_proj
= exaone ; . attn ln_1 mlp ; attn attention ; attn.attention k_proj out_proj q_proj v_proj ; mlp
+ c_fc_0 c_fc_1 c_proj
= exaone4 olmo2 olmo3 ; . mlp post_attention_layernorm post_feedforward_layernorm self_attn ;
+ mlp down_proj gate_proj up_proj ; self_attn k_norm k_proj o_proj q_norm q_proj v_proj
= falcon ; . input_layernorm input_layernorm.bias mlp self_attention ; mlp dense_4h_to_h
+ dense_h_to_4h ; self_attention dense query_key_value
= falcon_h1 ; . feed_forward input_layernorm mamba pre_ff_layernorm self_attn ; feed_forward
+ down_proj gate_proj up_proj ; mamba A_log D conv1d conv1d.bias dt_bias in_proj out_proj ;
+ self_attn k_proj o_proj q_proj v_proj
= flex_olmo ; . mlp post_attention_layernorm post_feedforward_layernorm self_attn ; mlp experts
+ gate ; mlp.experts.# down_proj gate_proj up_proj ; self_attn k_norm k_proj o_proj q_norm q_proj
+ v_proj
= gemma2 ; . input_layernorm mlp post_attention_layernorm post_feedforward_layernorm
+ pre_feedforward_layernorm self_attn ; mlp down_proj gate_proj up_proj ; self_attn k_proj o_proj
+ q_proj v_proj
= gemma3_text ; . input_layernorm mlp post_attention_layernorm post_feedforward_layernorm
+ pre_feedforward_layernorm self_attn ; mlp down_proj gate_proj up_proj ; self_attn k_norm k_proj
+ o_proj q_norm q_proj v_proj
= gemma3n_text ; . altup input_layernorm laurel mlp per_layer_input_gate per_layer_projection
+ post_attention_layernorm post_feedforward_layernorm post_per_layer_input_norm
+ pre_feedforward_layernorm self_attn ; altup correct_output_scale correction_coefs
+ modality_router prediction_coefs router_norm ; laurel linear_left linear_right post_laurel_norm
+ ; mlp down_proj gate_proj up_proj ; self_attn k_norm k_proj o_proj q_norm q_proj v_proj
= gemma4_text ; . input_layernorm layer_scalar mlp per_layer_input_gate per_layer_projection
+ post_attention_layernorm post_feedforward_layernorm post_per_layer_input_norm
+ pre_feedforward_layernorm self_attn ; mlp down_proj gate_proj up_proj ; self_attn k_norm k_proj
+ o_proj q_norm q_proj v_proj
= glm4 glm4v_text ; . input_layernorm mlp post_attention_layernorm post_mlp_layernorm
+ post_self_attn_layernorm self_attn ; mlp down_proj gate_up_proj ; self_attn k_proj k_proj.bias
+ o_proj q_proj q_proj.bias v_proj v_proj.bias
= glm4_moe ; . input_layernorm mlp post_attention_layernorm self_attn ; . input_layernorm mlp
+ self_attn ; mlp down_proj gate_proj up_proj ; mlp experts gate shared_experts ; mlp.experts.#
+ down_proj gate_proj up_proj ; mlp.shared_experts down_proj gate_proj up_proj ; self_attn k_proj
+ o_proj q_proj v_proj
= glm_ocr_text ; . input_layernorm mlp post_attention_layernorm post_mlp_layernorm
+ post_self_attn_layernorm self_attn ; mlp down_proj gate_up_proj ; self_attn k_proj o_proj q_proj
+ v_proj
= gpt2 ; . attn ln_1 ln_1.bias ln_2 ln_2.bias mlp ; attn c_attn c_proj c_proj.bias ; mlp c_fc
+ c_fc.bias c_proj c_proj.bias
= gpt_neox ; . attention input_layernorm input_layernorm.bias mlp post_attention_layernorm
+ post_attention_layernorm.bias ; attention dense dense.bias query_key_value query_key_value.bias
+ ; mlp dense_4h_to_h dense_4h_to_h.bias dense_h_to_4h dense_h_to_4h.bias
= gpt_oss ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp experts router
+ router.bias ; self_attn k_proj k_proj.bias o_proj o_proj.bias q_proj q_proj.bias sinks v_proj
+ v_proj.bias
= granitemoe ; . block_sparse_moe input_layernorm post_attention_layernorm self_attn ;
+ block_sparse_moe input_linear output_linear router ; block_sparse_moe.router layer ; self_attn
+ k_proj o_proj q_proj v_proj
= granitemoehybrid ; . block_sparse_moe input_layernorm mamba post_attention_layernorm
+ shared_mlp ; block_sparse_moe input_linear output_linear router ; block_sparse_moe.router layer
+ ; mamba A_log D conv1d conv1d.bias dt_bias in_proj norm out_proj ; shared_mlp input_linear
+ output_linear
= hunyuan_v1_dense ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp down_proj
+ gate_proj up_proj ; self_attn k_proj key_layernorm o_proj q_proj query_layernorm v_proj
= hunyuan_v1_moe ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp experts gate
+ shared_mlp ; mlp.experts.# down_proj gate_proj up_proj ; mlp.gate wg ; mlp.shared_mlp down_proj
+ gate_proj up_proj ; self_attn k_proj key_layernorm o_proj q_proj query_layernorm v_proj
= internlm2 ; . attention attention_norm feed_forward ffn_norm ; attention wo wqkv ;
+ feed_forward w1 w2 w3
= jamba ; . feed_forward input_layernorm mamba pre_ff_layernorm ; . feed_forward input_layernorm
+ pre_ff_layernorm self_attn ; feed_forward down_proj gate_proj up_proj ; feed_forward experts
+ router ; feed_forward.experts.# down_proj gate_proj up_proj ; mamba A_log D b_layernorm
+ c_layernorm conv1d conv1d.bias dt_layernorm dt_proj dt_proj.bias in_proj out_proj x_proj ;
+ self_attn k_proj o_proj q_proj v_proj
= jetmoe ; . input_layernorm mlp mlp.bias post_attention_layernorm self_attention ; mlp
+ input_linear output_linear router ; mlp.router layer ; self_attention experts experts.bias
+ kv_proj
= kimi_linear ; . block_sparse_moe self_attn ; block_sparse_moe experts gate shared_experts ;
+ block_sparse_moe.experts.# w1 w2 w3 ; block_sparse_moe.shared_experts down_proj gate_proj
+ up_proj ; self_attn A_log b_proj dt_bias f_a_proj f_b_proj g_a_proj g_b_proj k_conv1d k_proj
+ o_norm o_proj q_conv1d q_proj v_proj ; self_attn kv_a_layernorm kv_a_proj_with_mqa kv_b_proj
+ o_proj q_a_layernorm q_a_proj q_b_proj
= lfm2 ; . feed_forward ffn_norm operator_norm self_attn ; feed_forward w1 w2 w3 ; self_attn
+ k_layernorm k_proj out_proj q_layernorm q_proj v_proj
= lfm2_moe ; . conv feed_forward ffn_norm operator_norm ; . feed_forward ffn_norm operator_norm
+ self_attn ; conv conv in_proj out_proj ; feed_forward expert_bias experts gate ; feed_forward w1
+ w2 w3 ; feed_forward.experts.# w1 w2 w3 ; self_attn k_layernorm k_proj out_proj q_layernorm
+ q_proj v_proj
= llama4_text ; . feed_forward input_layernorm post_attention_layernorm self_attn ; feed_forward
+ experts router shared_expert ; feed_forward.shared_expert down_proj gate_proj up_proj ;
+ self_attn k_proj o_proj q_proj v_proj
= longcat_flash ; . input_layernorm mlp mlps post_attention_layernorm self_attn ; mlp experts
+ router ; mlp.experts.# down_proj gate_proj up_proj ; mlp.router classifier
+ e_score_correction_bias
= mamba2 ; . mixer norm ; mixer A_log D conv1d conv1d.bias dt_bias in_proj norm out_proj
= minimax ; . block_sparse_moe input_layernorm post_attention_layernorm self_attn ;
+ block_sparse_moe experts gate ; block_sparse_moe.experts.# w1 w2 w3 ; self_attn diagonal_decay
+ key_decay norm out_proj output_gate qkv_proj query_decay slope_rate ; self_attn k_proj o_proj
+ q_proj v_proj
= minimax_m2 ; . block_sparse_moe input_layernorm post_attention_layernorm self_attn ;
+ block_sparse_moe e_score_correction_bias experts gate ; block_sparse_moe.experts.# w1 w2 w3 ;
+ self_attn k_norm k_proj o_proj q_norm q_proj v_proj
= minimax_text_01 ; . block_sparse_moe self_attn ; block_sparse_moe experts gate ;
+ block_sparse_moe.experts.# w1 w2 w3 ; self_attn k_proj o_proj q_proj v_proj ; self_attn out_proj
+ output_gate qkv_proj
= mixtral ; . block_sparse_moe input_layernorm post_attention_layernorm self_attn ;
+ block_sparse_moe experts gate ; block_sparse_moe.experts.# w1 w2 w3 ; self_attn k_proj o_proj
+ q_proj v_proj
= modernbert ; . attn attn_norm mlp mlp_norm ; . attn mlp mlp_norm ; attn Wo Wqkv ; mlp Wi Wo
= molmo ; . att_proj attn_norm attn_out ff_out ff_proj
= moshi ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp fc1 fc2 ; self_attn
+ k_proj o_proj q_proj v_proj ; self_attn.k_proj linear ; self_attn.o_proj linear ;
+ self_attn.q_proj linear ; self_attn.v_proj linear
= nemotron ; . input_layernorm input_layernorm.bias mlp post_attention_layernorm
+ post_attention_layernorm.bias self_attn ; mlp down_proj up_proj ; self_attn k_proj o_proj q_proj
+ v_proj
= nemotron_h ; . mixer norm ; mixer A_log D conv1d conv1d.bias dt_bias in_proj norm out_proj ;
+ mixer down_proj up_proj ; mixer experts gate shared_experts ; mixer k_proj o_proj q_proj v_proj
+ ; mixer.experts.# down_proj up_proj ; mixer.gate e_score_correction_bias ; mixer.shared_experts
+ down_proj up_proj
= olmoe qwen3_moe ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp experts gate
+ ; mlp.experts.# down_proj gate_proj up_proj ; self_attn k_norm k_proj o_proj q_norm q_proj
+ v_proj
= opt ; . fc1 fc1.bias fc2 fc2.bias final_layer_norm final_layer_norm.bias self_attn
+ self_attn_layer_norm self_attn_layer_norm.bias ; self_attn k_proj k_proj.bias out_proj
+ out_proj.bias q_proj q_proj.bias v_proj v_proj.bias
= phi3 phi4_multimodal ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp
+ down_proj gate_up_proj ; self_attn o_proj qkv_proj
= phi3_v ; . mlp self_attn ; mlp down_proj gate_up_proj ; self_attn o_proj qkv_proj
= phi4mm ; . input_layernorm mlp self_attn ; mlp down_proj gate_up_proj ; self_attn o_proj
+ qkv_proj
= phimoe ; . block_sparse_moe input_layernorm input_layernorm.bias post_attention_layernorm
+ post_attention_layernorm.bias self_attn ; block_sparse_moe experts gate ;
+ block_sparse_moe.experts.# w1 w2 w3 ; self_attn k_proj o_proj q_proj v_proj
= qwen ; . attn ln_1 mlp ; attn c_attn c_proj ; mlp c_proj w1 w2
= qwen2 qwen2_5_omni_text qwen2_5_vl_text qwen2_vl_text seed_oss ; . input_layernorm mlp
+ post_attention_layernorm self_attn ; mlp down_proj gate_proj up_proj ; self_attn k_proj
+ k_proj.bias o_proj q_proj q_proj.bias v_proj v_proj.bias
= qwen2_moe ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp experts gate
+ shared_expert shared_expert_gate ; mlp.experts.# down_proj gate_proj up_proj ; mlp.shared_expert
+ down_proj gate_proj up_proj ; self_attn k_proj k_proj.bias o_proj q_proj q_proj.bias v_proj
+ v_proj.bias
= qwen3 qwen3_vl_text ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp down_proj
+ gate_proj up_proj ; self_attn k_norm k_proj o_proj q_norm q_proj v_proj
= qwen3_5_moe_text ; . input_layernorm linear_attn mlp post_attention_layernorm ; .
+ input_layernorm mlp post_attention_layernorm self_attn ; linear_attn A_log conv1d dt_bias
+ in_proj_a in_proj_b in_proj_qkv in_proj_z norm out_proj ; mlp experts gate shared_expert
+ shared_expert_gate ; mlp.experts.# down_proj gate_proj up_proj ; mlp.shared_expert down_proj
+ gate_proj up_proj ; self_attn k_norm k_proj o_proj q_norm q_proj v_proj
= qwen3_5_text ; . input_layernorm linear_attn mlp post_attention_layernorm ; . input_layernorm
+ mlp post_attention_layernorm self_attn ; linear_attn A_log conv1d dt_bias in_proj_a in_proj_b
+ in_proj_qkv in_proj_z norm out_proj ; mlp down_proj gate_proj up_proj ; self_attn k_norm k_proj
+ o_proj q_norm q_proj v_proj
= qwen3_next ; . linear_attn mlp ; . mlp self_attn ; linear_attn conv1d in_proj_ba in_proj_qkvz
+ out_proj ; mlp experts gate shared_expert shared_expert_gate ; mlp.experts.# down_proj gate_proj
+ up_proj ; mlp.shared_expert down_proj gate_proj up_proj ; self_attn k_proj o_proj q_proj v_proj
= qwen3_omni_moe_thinker ; . mlp self_attn ; mlp experts gate ; mlp.experts.# down_proj
+ gate_proj up_proj ; self_attn k_proj o_proj q_proj v_proj
= qwen3_vl_moe_text ; . input_layernorm mlp post_attention_layernorm self_attn ; mlp experts
+ gate ; self_attn k_norm k_proj o_proj q_norm q_proj v_proj
= recurrent_gemma ; . channel_pre_norm mlp_block temporal_block temporal_pre_norm ; mlp_block
+ down_proj down_proj.bias gate_proj gate_proj.bias up_proj up_proj.bias ; temporal_block conv_1d
+ conv_1d.bias linear_out linear_out.bias linear_x linear_x.bias linear_y linear_y.bias rg_lru ;
+ temporal_block k_proj o_proj o_proj.bias q_proj v_proj ; temporal_block.rg_lru input_gate_bias
+ input_gate_weight recurrent_gate_bias recurrent_gate_weight recurrent_param
= rwkv7 ; . attn attn_norm ffn ; attn k_proj o_proj r_proj v_proj w_lora x_r ; attn.w_lora lora
+ ; ffn key value
= stablelm ; . input_layernorm input_layernorm.bias mlp post_attention_layernorm
+ post_attention_layernorm.bias self_attn ; mlp down_proj gate_proj up_proj ; self_attn k_proj
+ o_proj q_proj v_proj
= starcoder2 ; . input_layernorm input_layernorm.bias mlp post_attention_layernorm
+ post_attention_layernorm.bias self_attn ; mlp c_fc c_fc.bias c_proj c_proj.bias ; self_attn
+ k_proj k_proj.bias o_proj o_proj.bias q_proj q_proj.bias v_proj v_proj.bias
= step3p5 ; . mlp self_attn ; . moe self_attn share_expert ; mlp down_proj gate_proj up_proj ;
+ moe down_proj gate gate_proj up_proj ; self_attn g_proj k_proj o_proj q_proj v_proj ;
+ share_expert down_proj gate_proj up_proj
= t5gemma ; . cross_attn mlp post_cross_attn_layernorm post_feedforward_layernorm
+ post_self_attn_layernorm pre_cross_attn_layernorm pre_feedforward_layernorm
+ pre_self_attn_layernorm self_attn ; cross_attn k_proj o_proj q_proj v_proj ; mlp down_proj
+ gate_proj up_proj ; self_attn k_proj o_proj q_proj v_proj
= whisper ; . encoder_attn encoder_attn_layer_norm encoder_attn_layer_norm.bias fc1 fc1.bias fc2
+ fc2.bias final_layer_norm final_layer_norm.bias self_attn self_attn_layer_norm
+ self_attn_layer_norm.bias ; encoder_attn k_proj out_proj out_proj.bias q_proj q_proj.bias v_proj
+ v_proj.bias ; self_attn k_proj out_proj out_proj.bias q_proj q_proj.bias v_proj v_proj.bias
= zamba2 ; . input_layernorm mamba ; mamba A_log D conv1d conv1d.bias dt_bias in_proj norm
+ out_proj
)";
}

}  // namespace microscale
